-- A revision names its actor as its event does: a key by its description, not by its id alone. New rows only.
alter table revisions
  alter column actor_name set default event_actor_name();
