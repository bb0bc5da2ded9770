"""Who signed, apart from whether they may.

identity     the identities that can sign: a key, a person, a CI workflow
certificate  the identity in a signing certificate
envelope     a signed statement as bytes: DSSE inside a Sigstore bundle
keys         the verifier and the signature primitive for plain keys
sigstore     the verifier for certificates
material     what certificates are judged by: authorities and logs, cut to a time
timestamps   when a signature was made, as a timestamp authority swears
verify       envelope -> who signed it and what it says
policy       whether that signer may do what the statement says
provenance   how a bundle was built: by the same CI, about the same bundle
revocation   which entry of the registry's revocations touches a release
proof        a plugin document and its attestations -> a proved history, a proved release
"""
