"""The registry: checks signed plugins, keeps them, and offers a static index of them.

__main__, command_line, operating    the command `plugreg-registry`; what an operator does to a registry
app           the composition root: settings -> adapters -> services -> one ASGI application
connections   the protocol of one connection: time limits, endless heads
front         the first thing a request meets: read plane or API, request id, log, last net for errors
static        the read plane: files as bytes, without the API and the database
routes        the API under `/v1`: translates between HTTP and the services, decides nothing
publishing, uploads, examination, catalog, questions, lifecycle             the services
index, renewal, ceremony, rotation, revocations, listing, leftovers         the services of the signed index
documents, signed_files, signers              what the index consists of: documents, signed files, keys
policy        who may do what, asked at the door and again in the inserting transaction
tiers         the operator's word on how far a server may travel
ports, records                                     what the services need of a store, and what they keep
blobs, metadata                                    the adapters: a folder, a database
"""

from plugreg_schemas.signing_kits import import_without_kits

import_without_kits()
