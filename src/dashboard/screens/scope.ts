// The deployments that something is about, as a form has them and as the API does (pure).
export type Scope = { isAll: boolean; deployments: string[]; tags: string[] }
export const EMPTY_SCOPE: Scope = { isAll: true, deployments: [], tags: [] }

type Scoped = { deployment_ids: string[]; tag_value_ids: string[] }
export const toScope = ({ deployment_ids, tag_value_ids }: Scoped): Scope => ({
  isAll: deployment_ids.length + tag_value_ids.length === 0,
  deployments: deployment_ids,
  tags: tag_value_ids,
})
export const fromScope = ({ isAll, deployments, tags }: Scope): Scoped => ({
  deployment_ids: isAll ? [] : deployments,
  tag_value_ids: isAll ? [] : tags,
})
/** Without any, the API would take it as all. */
export const explainScope = ({ isAll, deployments, tags }: Scope): string | undefined =>
  !isAll && deployments.length + tags.length === 0 ? 'Select a deployment or a tag first.' : undefined

export const describeScope = ({ deployment_ids, tag_value_ids }: Scoped): string =>
  [
    deployment_ids.length > 0 && `${deployment_ids.length} selected`,
    tag_value_ids.length > 0 && `those with one of ${tag_value_ids.length} tags`,
  ]
    .filter(Boolean)
    .join(', and ') || 'All'
