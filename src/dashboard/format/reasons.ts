// Describes why a revision was created (pure).

const REASONS: Record<string, string> = {
  created: 'First revision',
  requested: 'Deployed again',
  redeployed: 'Redeployed',
  rolled_back: 'Rolled back',
  pushed: 'Push',
  held: 'Held back',
}
/** By the last name of the path. Others are their names with spaces. */
const MEMBERS: Record<string, string> = {
  source_tarball_path: 'files',
  image_uri: 'image',
  repo_ref: 'branch',
  repo_commit_sha: 'commit',
  repo_url: 'repository',
  platform_config_path: 'runtime configuration',
  secret_references: 'variables from cluster secrets',
  resource_spec: 'scale',
  cpu: 'CPU',
  cpu_limit: 'CPU limit',
}

/** `secrets` → `secrets`, `source_revision_config.source_tarball_path` → `files`. */
export function describeMember(path: string): string {
  const name = path.split('.').at(-1)!
  return MEMBERS[name] ?? name.replaceAll('_', ' ')
}

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

/** A reason that is no word is the path of a member that was changed. */
export function describeReasons(reasons: string[]): string {
  const words = reasons.flatMap(reason => REASONS[reason] ?? [])
  const members = reasons.filter(reason => !REASONS[reason]).map(describeMember)
  const last = members.pop()
  if (last === undefined) return words.join(', ')
  const list = members.length > 0 ? `${members.join(', ')} and ${last}` : last
  return [...words, `${capitalize(list)} changed`].join(', ')
}
