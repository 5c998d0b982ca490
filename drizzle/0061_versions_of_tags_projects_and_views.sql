-- Versions of what is changed in place and had none: they become the ETag.
alter table tag_keys add column version integer not null default 1;
--> statement-breakpoint
alter table tag_values add column version integer not null default 1;
--> statement-breakpoint
alter table projects add column version integer not null default 1;
--> statement-breakpoint
alter table filter_views add column version integer not null default 1;
