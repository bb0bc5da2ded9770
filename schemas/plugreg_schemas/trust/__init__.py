"""Who signed, apart from whether they may.

identity     the identities that can sign: a key, a person, a CI workflow
certificate  the identity in a signing certificate
envelope     a signed statement as bytes: DSSE inside a Sigstore bundle
keys         the verifier and the signature primitive for plain keys
sigstore     the verifier for certificates
material     what certificates are judged by: authorities and logs, cut to a time
verify       envelope -> who signed it and what it says
policy       whether that signer may do what the statement says
proof        a plugin document and its attestations -> a proved history, a proved release
"""
