package main

import (
	"context"
	"errors"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"rollcall/configs"
)

// reload reads the configuration again. What it cannot take, as a whole, changes
// nothing.
func (s *server) reload(ctx context.Context) {
	s.notify(sd.SdNotifyReloading)
	defer s.notify(sd.SdNotifyReady)
	before := s.current.Load()
	after, err := s.reread(ctx, before)
	if err != nil {
		for _, e := range mistakes(err) {
			s.logMistake(e)
		}
		s.log().Error().Msg("the configuration was not taken; everything goes on with the one before")
		return
	}
	s.current.Store(after)
	s.schedule(after)
	s.log().Info().Int("schedules", len(after.schedules)).Msg("the configuration was read again; what runs now ends with the one before")
}

func (s *server) reread(ctx context.Context, before *generation) (*generation, error) {
	cfg, err := configs.Load(s.app.configPath)
	if err != nil {
		return nil, err
	}
	for _, field := range cfg.KeepFixed(before.config) {
		before.log.Warn().Str("field", field).Msg("needs a restart; the value from the start stays in force")
	}
	log, err := s.app.logger(cfg.Log.Level)
	if err != nil {
		return nil, err
	}
	d := *before.deployment
	d.config, d.log = cfg, log
	after, err := s.generation(&d, before)
	if err != nil {
		return nil, err
	}
	return after, s.arm(ctx, after)
}

// logMistake logs what is wrong with the configuration by its place.
func (s *server) logMistake(err error) {
	var f *configs.FieldError
	if !errors.As(err, &f) {
		s.log().Error().Err(err).Msg("read the configuration again")
		return
	}
	s.log().Error().Str("file", f.File).Int("line", f.Line).Str("field", f.Field).Msg(f.Message)
}

// mistakes are the errors that were joined.
func mistakes(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
