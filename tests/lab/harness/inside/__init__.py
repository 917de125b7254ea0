"""Code that runs inside the guests: standard library only, copied into the initramfs."""
