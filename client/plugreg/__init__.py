"""The client: what authors, users and hosts run.

cli, console, annotations           arguments and exit codes; all printing
config, registries, own_files       settings; which registries are known; reading files that may be anything
scaffold, check, convert, publish, statements                   for authors
signing, credentials, keyless, trust_material                   who signs, and what certificates are judged by
info, install, uninstall, inventory, dependencies, resolving    for users
choosing, closure, pinning, sources, delivery                   the steps of an installation
plugins_root                        the folder of installed plugins
run, launch, environment, programs, machine                     running plugins
process, streams, escapees, supervision                         a child process that leaves nothing behind
remote, link                        a registry over HTTP
"""
