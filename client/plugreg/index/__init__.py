"""The signed index of a registry: what it offers, who administers it, what is revoked; all of it verified.

terms      what a command may do
folder     what this machine keeps, and which root it trusts
roots      which root that is: pinned, given, accepted, or the first one seen
online     the newest state, by python-tuf
walk       a state without a network, of any bearable age
sources    where a walk reads: a folder, or what was kept
whole      all of one state, for a mirror
verdicts   what is wrong, in our own words
signed     the documents of one verified state
"""
