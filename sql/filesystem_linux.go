package sql

import (
	"fmt"
	"syscall"
)

// fileSystems are Linux's numbers of file systems (linux/magic.h) by which to
// name, and where need be refuse, one. FUSE and 9P hand each call to a program,
// which may well be on another host.
var fileSystems = map[uint32]fileSystem{
	0xEF53:     {name: "ext4"},
	0x58465342: {name: "xfs"},
	0x9123683E: {name: "btrfs"},
	0xF2F52010: {name: "f2fs"},
	0x2FC12FC1: {name: "zfs"},
	0xCA451A4E: {name: "bcachefs"},
	0x01021994: {name: "tmpfs"},
	0x858458F6: {name: "ramfs"},
	0x794C7630: {name: "overlayfs"},
	0x6969:     {name: "NFS", network: true},
	0x517B:     {name: "SMB", network: true},
	0xFF534D42: {name: "CIFS", network: true},
	0xFE534D42: {name: "SMB", network: true},
	0x65735546: {name: "FUSE", network: true},
	0x5346414F: {name: "AFS", network: true},
	0x6B414653: {name: "AFS", network: true},
	0x73757245: {name: "Coda", network: true},
	0x00C36400: {name: "Ceph", network: true},
	0x01021997: {name: "9P", network: true},
	0x0BD00BD0: {name: "Lustre", network: true},
	0x47504653: {name: "GPFS", network: true},
	0x01161970: {name: "GFS2", network: true},
	0x7461636F: {name: "OCFS2", network: true},
	0x786F4256: {name: "a VirtualBox shared folder", network: true},
}

// askFileSystem asks the kernel.
func askFileSystem(path string) (fileSystem, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return fileSystem{}, err
	}
	f, ok := fileSystems[uint32(st.Type)]
	if !ok {
		f.name = fmt.Sprintf("0x%X", uint32(st.Type))
	}
	f.free = int64(st.Bavail) * int64(st.Bsize)
	return f, nil
}
