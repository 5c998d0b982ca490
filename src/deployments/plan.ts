// What a patch comes to: which members it changes, whether that makes a revision, what it may not change. Pure, and told in one table,
// which the database is asked by too, so that a plan and its application cannot disagree.
import { type ClearableMember, MASK } from '../protocol/parts.schema.ts'
import type { DeploymentPatch, Plan } from './schema.ts'

export type Effect = 'in_place' | 'revision' | 'immutable'
/** What is wanted of a deployment now, as it is stored; of secrets, only the names. */
export type Wanted = {
  version: number
  source_config: Record<string, unknown>
  source_revision_config: Record<string, unknown>
  secret_references: unknown[] | null
  secrets: { name: string }[]
}

type MemberRule = { effect: Effect; isMovable?: (value: string) => boolean }
const immutableRule: MemberRule = { effect: 'immutable' }
const inPlaceRule: MemberRule = { effect: 'in_place' }
const revisionRule: MemberRule = { effect: 'revision' }

const COMMIT_SHA = /^[0-9a-f]{40}([0-9a-f]{24})?$/
const IMAGE_DIGEST = /@sha256:[0-9a-f]{64}$/

const MEMBER_RULES: Record<string, MemberRule> = {
  'source_config.integration_id': immutableRule,
  'source_config.repo_url': immutableRule,
  'source_config.deployment_type': immutableRule,
  'source_config.template_id': immutableRule,
  'source_config.listener_id': immutableRule,
  'source_config.listener_config': immutableRule,
  'source_config.build_on_push': inPlaceRule,
  'source_config.custom_url': inPlaceRule,
  'source_config.resource_spec': revisionRule,
  'source_config.install_command': revisionRule,
  'source_config.build_command': revisionRule,
  // What a branch or a tag points to may have moved: said again, it is wanted again.
  'source_revision_config.repo_ref': { effect: 'revision', isMovable: ref => !COMMIT_SHA.test(ref) },
  'source_revision_config.image_uri': { effect: 'revision', isMovable: uri => !IMAGE_DIGEST.test(uri) },
  'source_revision_config.platform_config_path': revisionRule,
  'source_revision_config.source_tarball_path': revisionRule,
  secret_references: revisionRule,
}

/** A member that a patch supplies: its place, what it says, what follows when that is new, and whether it counts as new in any case. */
export type PatchMember = { path: string[]; value: unknown; effect: Effect; isAlwaysNew: boolean }

/** Everything that a patch supplies but secrets, which are compared by name. */
export function listPatchMembers(patch: DeploymentPatch, clear: readonly ClearableMember[] = []): PatchMember[] {
  const members: PatchMember[] = []
  for (const [place, { effect, isMovable: moves }] of Object.entries(MEMBER_RULES)) {
    const path = place.split('.')
    const value = path.reduce<unknown>((at, name) => (at as Record<string, unknown> | null | undefined)?.[name], patch)
    if (value != null) members.push({ path, value, effect, isAlwaysNew: moves?.(value as string) ?? false })
  }
  for (const name of clear) {
    const path = ['source_config', name]
    members.push({ path, value: null, effect: MEMBER_RULES[path.join('.')]!.effect, isAlwaysNew: false })
  }
  if (patch.revision_source != null) {
    members.push({ path: ['revision_source'], value: patch.revision_source, effect: 'revision', isAlwaysNew: true })
  }
  return members
}

export const isMasked = ({ value }: { value: string }): boolean => value === MASK
/** An empty list keeps the secrets as they are. */
export const hasSecrets = (patch: DeploymentPatch): boolean => (patch.secrets?.length ?? 0) > 0

export function planPatchChanges(
  wanted: Wanted,
  patch: DeploymentPatch,
  clear: readonly ClearableMember[] = [],
): Omit<Plan, 'plan_digest'> {
  const changes: Plan['changes'] = []
  for (const { path, value, effect, isAlwaysNew: always } of listPatchMembers(patch, clear)) {
    const before = path.reduce<unknown>((at, name) => (at as Record<string, unknown> | null)?.[name], wanted) ?? null
    const after = isEmptyList(value) ? null : value
    if (always || !isJsonEqual(before, after)) changes.push({ path: path.join('.'), before, after, effect })
  }
  const secrets = planSecretsChange(wanted, patch)
  if (secrets) changes.push(secrets)
  const reasons = changes.filter(change => change.effect === 'revision').map(change => change.path)
  const found = wanted.source_revision_config.repo_commit_sha ?? null
  if (reasons.includes(REPO_REF_PATH) && found !== null)
    changes.push({ path: 'source_revision_config.repo_commit_sha', before: found, after: null, effect: 'revision' })
  const again = changes.filter(change => change.effect === 'revision' && isJsonEqual(change.before, change.after))
  return {
    creates_revision: reasons.length > 0,
    reasons,
    changes,
    warnings: again.map(({ path }) => `\`${path}\` is what it was, but what it points to may have moved.`),
  }
}

/** Said anew, it is looked up anew: the commit that was found for it goes. */
export const REPO_REF_PATH = 'source_revision_config.repo_ref'

const namesOf = (named: { name: string }[]) => named.map(({ name }) => name)

/** Compared by name only: values are sealed, and a value that is sent is taken for new. */
function planSecretsChange({ secrets }: Wanted, patch: DeploymentPatch): Plan['changes'][number] | undefined {
  if (!hasSecrets(patch)) return undefined
  const before = namesOf(secrets)
  const after = namesOf(patch.secrets!)
  if (patch.secrets!.every(isMasked) && isJsonEqual([...before].sort(), [...after].sort())) return undefined
  return { path: 'secrets', before, after, effect: 'revision' }
}

type RevisionContent = Omit<Wanted, 'version'>
/** What a revision is made of; the rest of the configuration is the deployment's own and stays when a revision comes back. */
const REVISION_MEMBERS = Object.keys(MEMBER_RULES).filter(place => MEMBER_RULES[place]!.effect === 'revision')
export const IN_PLACE_MEMBERS = Object.keys(MEMBER_RULES)
  .filter(place => MEMBER_RULES[place]!.effect === 'in_place')
  .map(place => place.split('.')[1]!)

/** What it comes to when an older revision is wanted again, as a new one. */
export function planRestoreChanges(
  wanted: RevisionContent,
  to: RevisionContent,
  reason: string,
): Omit<Plan, 'plan_digest'> {
  const at = (from: RevisionContent, place: string) =>
    place.split('.').reduce<unknown>((held, name) => (held as Record<string, unknown> | null)?.[name], from) ?? null
  const changes = [...REVISION_MEMBERS, 'source_revision_config.repo_commit_sha']
    .map(path => ({ path, before: at(wanted, path), after: at(to, path), effect: 'revision' as const }))
    .filter(({ before, after }) => !isJsonEqual(before, after))
  if (!isJsonEqual(wanted.secrets, to.secrets))
    changes.push({ path: 'secrets', before: namesOf(wanted.secrets), after: namesOf(to.secrets), effect: 'revision' })
  return { creates_revision: true, reasons: [reason], changes, warnings: [] }
}

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0

/** Equal as JSON: the order of members does not matter, that of items does. */
export function isJsonEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const [mine, theirs] = [Object.entries(a), Object.entries(b)]
  return (
    mine.length === theirs.length &&
    mine.every(([name, value]) => Object.hasOwn(b, name) && isJsonEqual(value, (b as Record<string, unknown>)[name]))
  )
}
