package sqltest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

// errNotInstalled means that there is nothing to start.
var errNotInstalled = errors.New("a program is not installed")

// need fails the test, or skips it where a program is missing and nobody asked
// for it to be there.
func need(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNotInstalled) && os.Getenv("ROLLCALL_TEST_POSTGRES") != "require" {
		t.Skipf("%v; set ROLLCALL_TEST_POSTGRES=require to fail instead", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// program finds a program in PATH or where Debian keeps it. What Debian puts into
// PATH may be a link to a wrapper that goes by the name that it is called by; the
// program itself is taken then.
func program(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		if p, err = filepath.EvalSymlinks(p); err != nil || filepath.Base(p) == name {
			return p, err
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/", "/usr/sbin/"} {
		if found, _ := filepath.Glob(pattern + name); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, errNotInstalled)
}

// process is a running program that ends with this process, however this ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start starts a program. The kernel ties it to the thread that started it, so
// that thread must stay.
func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, nil
}

// end sends the signal and waits for the end. A process that has ended may be
// ended again.
func (p *process) end(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal)
	<-p.done
}

// unprivileged makes a folder usable for the user that servers will run as,
// since they refuse to run as root.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2, os.Chown(dir, uid, gid)); err != nil {
			return nil, err
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return nil, errors.New("neither user postgres nor nobody exists to run a server as")
}

// workspace is a folder in which a server runs, and what its programs need to
// run as the right user.
type workspace struct {
	dir  string
	attr *syscall.SysProcAttr
}

func newWorkspace(name string) (workspace, error) {
	dir, err := os.MkdirTemp("", "rollcall-"+name+"-")
	if err != nil {
		return workspace{}, err
	}
	attr, err := unprivileged(dir)
	if err != nil {
		return workspace{}, errors.Join(err, os.RemoveAll(dir))
	}
	return workspace{dir: dir, attr: attr}, nil
}

// command is a program that runs in the folder.
func (w workspace) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	attr := *w.attr
	cmd.SysProcAttr, cmd.Dir = &attr, w.dir
	return cmd
}

// start starts a server whose output goes to the file "log".
func (w workspace) start(cmd *exec.Cmd) (*process, error) {
	log, err := os.OpenFile(filepath.Join(w.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the server has its own
	cmd.Stdout, cmd.Stderr = log, log
	return start(cmd)
}

func (w workspace) remove() { _ = os.RemoveAll(w.dir) }

// freePort is a port of this machine that nobody listens on. It is none that
// the kernel gives to outgoing connections: while a server is down, one of its
// clients would get its port, or a connection to itself.
func freePort() (int, error) {
	for range 1000 {
		port := nextPort()
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no port between 15000 and 32000 is free")
}
