-- The submission by which the job was made, as far as the provider tells.
INSERT INTO submissions (submission_id, job_id, attempt, account, fence, manifest_mac, line_count, intent_us, send_deadline_us, input_file_id,
  outcome, evidence, closed_us, text_left)
VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $7, $8, 'accepted', $9, $10, 1)
