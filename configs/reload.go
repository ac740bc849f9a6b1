package configs

// KeepFixed gives a configuration that was read again those values of the
// running one that a process cannot change, and names the fields in which the
// two differ: they need a restart.
func (c *Config) KeepFixed(running *Config) (needRestart []string) {
	was, is := running.Database, c.Database
	for _, f := range []struct {
		field   string
		changed bool
	}{
		{"database", was.Path != is.Path || was.URL.File != is.URL.File || was.URL.Env != is.URL.Env},
		{"keyring", running.Keyring != c.Keyring},
		{"witness", running.Witness != c.Witness},
		{"lease", running.Lease != c.Lease},
		{"serve.listen", running.Serve.Listen != c.Serve.Listen},
	} {
		if f.changed {
			needRestart = append(needRestart, f.field)
		}
	}
	c.Database, c.Keyring, c.Witness, c.Lease, c.Serve.Listen = was, running.Keyring, running.Witness, running.Lease, running.Serve.Listen
	return needRestart
}
