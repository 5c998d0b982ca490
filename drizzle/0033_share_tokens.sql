-- The name of a unique constraint is the code of its violation.
alter table run_shares rename constraint run_shares_pkey to share_token_taken;
