"""Attacks on the whole product: each test is named by what the attacker does.

| attack or field report | at the registry and at the client |
|---|---|
| other artifact | test_served_anyway: test_other_artifact; test_sigstore: test_other_artifact |
| other identity | test_served_anyway: test_t24_k6_other_identity_with_a_key |
| other repository id | test_served_anyway: test_other_identity_of_the_same_certificate_authority |
| time removed | test_served_anyway: test_time_removed; test_sigstore: test_time_removed |
| foreign instance with equal claims | test_served_anyway: test_foreign_instance_with_equal_claims |
| re-labelled version | test_served_anyway: test_t24_k5_relabelled_version; test_proof: test_relabelled_version |
| re-labelled plugin | test_served_anyway: test_t24_k5_relabelled_plugin; test_proof: test_relabelled_plugin |
| statement for another registry | test_served_anyway: test_statement_for_another_registry |
| unsigned successor | test_served_anyway: test_t24_k7_unsigned_successor |
| replayed yank | test_served_anyway: test_replayed_yank; test_history: test_replayed_yank |
| forked history | test_served_anyway: test_forked_history; test_history: test_forked_history |
| dropped attestation | test_served_anyway: test_dropped_attestation; test_proof: test_dropped_attestation |
| key outside its validity | test_served_anyway: test_key_outside_its_validity |
| ref that no owner allows | test_served_anyway: test_release_from_a_ref_that_the_owners_do_not_allow |
| certificate bundle on a key name | test_served_anyway: test_certificate_bundle_on_a_key_name |
| key bundle on a certificate name | test_served_anyway: test_key_bundle_on_a_certificate_name |
| two strangers race for one free name | test_publishing: test_two_strangers_race_for_one_free_name_fifty_times |
| rollback | test_index_rollback: test_rollback_of_the_whole_state |
| freeze | test_index_rollback: test_freeze |
| mix-and-match | test_index_rollback: test_bin_of_another_state, test_snapshot_of_another_state |
| foreign key | test_index_keys: test_foreign_key |
| online key replacing the trust root | test_index_keys: test_online_key_replaces_the_trust_root |
| online key replacing the administrators | test_index_keys: test_online_key_replaces_the_administrators |
| revocations withheld | test_words_of_a_mirror: test_revocations_behind_a_refusal_that_this_machine_might_have_said |
| name denied by one registry | test_words_of_a_mirror: test_name_that_one_registry_is_made_to_deny_and_another_offers |
| slow retrieval | test_hostile_registry: test_a_registry_that_sends_a_byte_at_a_time |
| endless data | test_index_bytes: test_endless_data |
| K1, T23: no network | test_air_gap: test_t23_k1_install_and_verify_from_a_copy_without_a_network |
| K2: very old index | test_index: test_an_index_without_a_network_may_be_old_to_a_degree |
| K3, T23: wrong clock | test_index_clock: test_verdicts_do_not_depend_on_the_clock |
| K4: a trust piece is missing | test_served_anyway: test_k4_each_trust_piece_missing_here_is_named |
| K8, T23: missing is not forged | test_verdicts: test_each_kind_of_fault_has_its_own_exit_code_and_text |
| K9: many first uses at once | test_air_gap: test_k9_first_time_installs_at_once_with_an_empty_cache |
| K10: altered cache | test_index_bytes: test_k10_flipped_bit_in_a_cached_file |
| K11: rotation | test_index_keys: test_key_that_a_rotation_replaced_signs_no_more, test_root_that_was_skipped |
| K12: newer bundle | test_envelope: test_bundle_of_another_version_cannot_be_judged |
| L1: inspected TLS | test_network: test_t25_publish_install_and_verify_behind_a_private_authority |
| L2: cut download | test_remote: test_a_cut_download_goes_on_where_it_stopped |
| L3: bad resume | test_remote: test_a_part_that_begins_elsewhere_is_dropped_and_everything_asked_for_again |
| L4: token sent to the storage | test_remote: test_redirect_to_another_origin_carries_nothing_of_ours |

`test_table.py` keeps the table true. Ten thousand seeded changes of good bytes: `test_fuzz.py`.
"""
