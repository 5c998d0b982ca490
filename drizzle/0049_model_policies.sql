-- A caller does not see what a deployment that its policies hide used and may use.
alter policy admitted on model_usage
  using (
    (select setting('by_policy')) is distinct from 'true'
    and (
      deployment_id is null
      or not (select hides('deployment'))
      or exists (select from deployments d where d.id = model_usage.deployment_id)
    )
  );
alter policy admitted on model_budgets
  using (
    (select setting('by_policy')) is distinct from 'true'
    and (
      deployment_id is null
      or not (select hides('deployment'))
      or exists (select from deployments d where d.id = model_budgets.deployment_id)
    )
  );
