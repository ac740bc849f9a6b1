//go:build !linux

package sql

// askFileSystem knows nothing: the numbers of file systems are Linux's.
func askFileSystem(string) (fileSystem, error) { return fileSystem{free: -1}, nil }
