"""Who signed, apart from whether they may.

identity   the identities that can sign: a key, a person, a CI workflow
envelope   a signed statement as bytes: DSSE inside a Sigstore bundle
keys       the verifier and the signature primitive for plain keys
verify     envelope -> who signed it and what it says
policy     whether that signer may do what the statement says
proof      a plugin document and its attestations -> a proved history, a proved release
"""
