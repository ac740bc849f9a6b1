package sandbox

import (
	"errors"
	"fmt"
	"os"
	"time"
)

func (s *Server) saveJob(j *job) error { return s.disk.save(s.disk.recordPath(jobDir, j.ID), j) }

func (s *Server) restoreJobs() error {
	err := s.disk.each(jobDir, ".json", func(id, path string) error {
		j := new(job)
		if err := load(path, j); err != nil {
			return err
		}
		s.jobs[id] = j
		s.seq = max(s.seq, j.Seq)
		return nil
	})
	if err != nil {
		return err
	}
	// The copy of the input outlives its use when the process is killed
	// between storing the outcome and removing the copy.
	return s.disk.each(jobDir, ".input", func(id, path string) error {
		if j, ok := s.jobs[id]; ok && j.Checked != nil && len(j.Checked.Problems) == 0 && j.Ended == nil {
			return nil
		}
		return s.disk.remove(path)
	})
}

// advanceJobs brings every job of a project up to date.
func (s *Server) advanceJobs(project string, now time.Time) error {
	for _, j := range s.jobsOf(project) {
		if _, err := s.upToDate(j, now); err != nil {
			return err
		}
	}
	return nil
}

// advance does what has fallen due for a job: validation, then the results.
// j.mu is held. A crash in between repeats the step: file ids follow from the
// job's id, and nobody has been told of them before the record is stored.
func (s *Server) advance(j *job, now time.Time) error {
	if j.Checked == nil && !now.Before(j.checkedAt()) && !j.stoppedUnchecked() {
		if err := s.validate(j); err != nil {
			return fmt.Errorf("validate %s: %w", j.ID, err)
		}
	}
	if j.Checked == nil || len(j.Checked.Problems) > 0 || j.Ended != nil {
		return nil
	}
	if c := j.course(); !now.Before(c.at) {
		if err := s.end(j, c); err != nil {
			return fmt.Errorf("write results of %s: %w", j.ID, err)
		}
	}
	return nil
}

// validate checks the input file as it is on disk now. A job that passes keeps
// a link to it, so that it ends even when the file is deleted meanwhile.
func (s *Server) validate(j *job) error {
	c, err := s.inspect(j)
	if err != nil {
		return err
	}
	j.Checked = &c
	if err := s.saveJob(j); err != nil {
		j.Checked = nil
		return err
	}
	s.log.Info().Str("job", j.ID).Int("lines", c.Lines).Int("problems", len(c.Problems)).Msg("validated")
	return nil
}

func (s *Server) inspect(j *job) (checked, error) {
	if _, ok := j.fault("token_limit_exceeded"); ok {
		return checked{Problems: []problem{{Code: "token_limit_exceeded", Message: "Enqueued token limit reached."}}}, nil
	}
	missing := checked{Problems: []problem{{Code: "invalid_request", Message: cannotFindFile}}}
	if _, ok := j.fault("validate_file_missing"); ok {
		return missing, nil
	}
	if _, err := s.findFile(j.Project, j.InputFile, j.checkedAt()); err != nil {
		var e *apiError
		if errors.As(err, &e) {
			return missing, nil
		}
		return checked{}, err
	}
	link := s.disk.inputPath(j.ID)
	if err := s.disk.remove(link); err != nil {
		return checked{}, err
	}
	if err := os.Link(s.disk.dataPath(j.InputFile), link); errors.Is(err, os.ErrNotExist) {
		return missing, nil
	} else if err != nil {
		return checked{}, fmt.Errorf("keep input: %w", err)
	}
	c, err := s.checkInput(j, link)
	if err == nil && len(c.Problems) > 0 {
		err = errors.Join(s.disk.remove(link), s.disk.remove(s.disk.idsPath(j.ID)))
	}
	return c, err
}

// checkInput validates the lines and stores the ids of those that pass.
func (s *Server) checkInput(j *job, path string) (checked, error) {
	in, err := os.Open(path)
	if err != nil {
		return checked{}, fmt.Errorf("open input: %w", err)
	}
	defer in.Close()
	ids, err := s.disk.temp()
	if err != nil {
		return checked{}, err
	}
	defer drop(ids)
	c, err := check(in, j.Endpoint, ids)
	if err != nil {
		return checked{}, err
	}
	return c, s.disk.keep(ids, s.disk.idsPath(j.ID))
}
