-- Whether the agent of a listener serves in public: a custom host of its own workspace is then proved first too.
alter table listeners add column verified_hosts_only boolean not null default false;
--> statement-breakpoint
grant update (verified_hosts_only) on listeners to slipway_agent;
