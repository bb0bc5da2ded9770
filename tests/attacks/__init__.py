"""Attacks on the whole product: each test is named by what the attacker does."""
