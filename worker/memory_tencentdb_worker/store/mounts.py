"""On which mount a directory lies, and whether that is another machine's: SQLite's locks and shared memory cannot be
trusted there (trap B88)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

NETWORK_TYPES = frozenset({
    "nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "virtiofs", "drvfs", "vboxsf", "prl_fs", "afpfs",
    "ceph", "lustre", "beegfs", "gpfs", "davfs", "webdav", "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs",
    "fuse.ceph", "fuse.vmhgfs-fuse", "fuse.gcsfuse",
})  # fmt: skip


@dataclass(frozen=True)
class Mount:
    place: Path
    kind: str  # the file system's name
    device: str

    @property
    def is_network(self) -> bool:
        return self.kind.lower() in NETWORK_TYPES


def known_mounts() -> list[Mount]:
    """What the system says is mounted; [] where it cannot be asked."""
    try:
        return [Mount(Path(part.mountpoint), part.fstype, part.device) for part in psutil.disk_partitions(all=True)]
    except (OSError, RuntimeError):
        return []


def mount_of(path: Path, mounts: Sequence[Mount]) -> Mount | None:
    """The innermost mount that holds `path`; of several on one place the latest, which hides the others."""
    real = path.resolve()
    holding = [mount for mount in mounts if real.is_relative_to(mount.place)]
    return max(reversed(holding), key=lambda mount: len(mount.place.parts), default=None)
