package sqltest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// ownMounts is set in a process that has a mount namespace of its own; to "root"
// where it is the machine's root there as well.
const ownMounts = "ROLLCALL_TEST_OWN_MOUNTS"

// WithDisks runs a test where it may mount what it likes: in a process of its
// own, whose mounts nobody else sees and which end with it. That needs no root
// where users may have namespaces; where they may not, the test is skipped. It is
// called by a test itself, not by a part of one.
func WithDisks(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(ownMounts) != "" {
		// Otherwise what is mounted here would be mounted outside as well.
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Skipf("a test with disks of its own needs to mount: %v", err)
		}
		test(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.run", onlyThis(t))
	who := "user"
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() == 0 {
		who = "root"
	} else {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	cmd.Env = append(os.Environ(), ownMounts+"="+who)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Skipf("a test with disks of its own needs a mount namespace: %v", err)
	}
	t.Logf("in a process with disks of its own:\n%s", out)
	switch {
	case err != nil:
		t.Error(err)
	case strings.Contains(string(out), "\n--- SKIP: "+t.Name()):
		t.SkipNow()
	}
}

// onlyThis matches a test, and those parts of it that were asked for.
func onlyThis(t *testing.T) string {
	_, parts, some := strings.Cut(flag.Lookup("test.run").Value.String(), "/")
	if some {
		parts = "/" + parts
	}
	return "^" + regexp.QuoteMeta(t.Name()) + "$" + parts
}

// Disk is a small file system of one test's own.
type Disk struct {
	Path  string
	t     testing.TB
	image string // of a block device; "" for a tmpfs
}

func (d *Disk) ballast() string { return filepath.Join(d.Path, "ballast") }

// NewDisk mounts a tmpfs of so many bytes, which is empty. Call it within
// WithDisks.
func NewDisk(t testing.TB, bytes int64) *Disk {
	t.Helper()
	return mountTmpfs(t, emptyFolder(t), bytes)
}

func mountTmpfs(t testing.TB, path string, bytes int64) *Disk {
	t.Helper()
	d := &Disk{Path: path, t: t}
	if err := syscall.Mount("tmpfs", d.Path, "tmpfs", 0, fmt.Sprint("size=", bytes)); err != nil {
		t.Skipf("mount a tmpfs: %v", err)
	}
	d.unmountAtEnd()
	return d
}

// NewBlockDisk mounts an ext4 over a loop device, which Fail makes read-only
// under whoever writes to it, as a device does that fails. That needs root.
func NewBlockDisk(t testing.TB, bytes int64) *Disk {
	t.Helper()
	if os.Getenv(ownMounts) != "root" {
		t.Skip("a loop device needs root")
	}
	d := &Disk{Path: emptyFolder(t), t: t}
	d.image = filepath.Join(filepath.Dir(d.Path), "image")
	if err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, bytes)); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", "-m", "0", d.image}, {"mount", "-o", "loop,errors=remount-ro", d.image, d.Path}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v: %s", command[0], err, out)
		}
	}
	d.unmountAtEnd()
	return d
}

func emptyFolder(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func (d *Disk) unmountAtEnd() {
	d.t.Cleanup(func() {
		if err := syscall.Unmount(d.Path, 0); err != nil {
			d.t.Errorf("unmount: %v", err)
		}
	})
}

// Fill writes a ballast file that leaves so many bytes free, rounded to pages.
// It may be called again, and with the ballast there.
func (d *Disk) Fill(leave int64) {
	d.t.Helper()
	d.Free()
	var st syscall.Statfs_t
	err := syscall.Statfs(d.Path, &st)
	if err == nil {
		err = os.WriteFile(d.ballast(), make([]byte, max(0, int64(st.Bavail)*st.Bsize-leave)), 0o600)
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) { // somebody else may fill it as well
		d.t.Fatalf("fill a disk: %v", err)
	}
}

// Free takes the ballast away.
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.Remove(d.ballast()); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatalf("free a disk: %v", err)
	}
}

// ReadOnly remounts a tmpfs on which no file is open for writing.
func (d *Disk) ReadOnly() { d.t.Helper(); d.remount(syscall.MS_RDONLY) }

// Writable undoes ReadOnly.
func (d *Disk) Writable() { d.t.Helper(); d.remount(0) }

func (d *Disk) remount(flags uintptr) {
	d.t.Helper()
	if err := syscall.Mount("", d.Path, "", syscall.MS_REMOUNT|flags, ""); err != nil {
		d.t.Fatalf("remount: %v", err)
	}
}

// Fail has the kernel take a block disk for broken: from now on nothing can be
// written to it, whoever has files open.
func (d *Disk) Fail() {
	d.t.Helper()
	device, err := exec.Command("findmnt", "-n", "-o", "SOURCE", d.Path).Output()
	if err != nil {
		d.t.Fatal(err)
	}
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(strings.TrimSpace(string(device))), "trigger_fs_error")
	if err := os.WriteFile(trigger, []byte("a test"), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// Mend mounts a block disk anew, once nobody has a file open.
func (d *Disk) Mend() {
	d.t.Helper()
	if err := syscall.Unmount(d.Path, 0); err != nil {
		d.t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "loop,errors=remount-ro", d.image, d.Path).CombinedOutput(); err != nil {
		d.t.Fatalf("mount: %v: %s", err, out)
	}
}

// NewClusterOn starts a server whose data lies on a tmpfs of this size.
func NewClusterOn(t testing.TB, bytes int64, settings ...string) (*Cluster, *Disk) {
	t.Helper()
	if os.Getenv(ownMounts) != "root" {
		t.Skip("PostgreSQL runs as another user, which needs root")
	}
	inner, err := newCluster()
	need(t, err)
	c := &Cluster{cluster: inner, t: t}
	t.Cleanup(c.workspace.remove)
	c.settings = settings
	fresh := c.data + ".fresh"
	if err := errors.Join(os.Rename(c.data, fresh), os.Mkdir(c.data, 0o700)); err != nil {
		t.Fatal(err)
	}
	disk := mountTmpfs(t, c.data, bytes)
	if out, err := exec.Command("cp", "-a", fresh+"/.", c.data).CombinedOutput(); err != nil {
		t.Fatalf("copy a server's folder: %v: %s", err, out)
	}
	c.Start()
	t.Cleanup(c.Stop) // before its disk goes
	return c, disk
}
