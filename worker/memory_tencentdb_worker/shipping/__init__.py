"""What installs the product beside a host. Used by `install.sh`, never by the running worker."""
