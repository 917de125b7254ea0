"""Results as pages: one HTML file each, which needs no network and no server."""
