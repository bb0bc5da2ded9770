"""The client: what authors, users and hosts run.

cli, console, annotations           arguments and exit codes; all printing
config, registries, own_files       settings; which registries are known; reading files that may be anything
scaffold, check, convert, publish, statements                   for authors
signing, credentials, keyless, timestamping                     who signs, and when
info, install, uninstall, inventory, dependencies, resolving    for users
choosing, closure, sources, picking, proving, pinning, delivery the steps of an installation
trust_policy, revocations, histories, starting                  whom this machine trusts; what it has seen
plugins_root                        the folder of installed plugins
run, launch, environment, programs, machine                     running plugins
process, streams, escapees, supervision                         a child process that leaves nothing behind
reader, remote, objects, link, network, arrival                 a registry: over HTTP, in a folder, or offline
index, trust_material               its signed index, verified; what certificates are judged by
"""
