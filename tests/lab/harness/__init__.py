"""The lab's harness: virtual machines with chosen topologies and kernels, for the tests in ``tests/lab``.

Read in this order: ``topology`` (what hardware), ``debian`` and ``image`` (what is inside), ``initramfs`` (how it
starts), ``machine`` (one QEMU process), ``guest`` (what a test calls), ``snapshot`` (why it starts in a second),
``limits`` (what it may not certify), ``plugin`` (the pytest side). ``inside/`` is the code that runs in the guest.
Nothing here is part of the product; nothing in the product imports it.
"""
