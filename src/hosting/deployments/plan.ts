// The rules of the members of a patch, which patch.ts sends to plan_patch() in the database, and descriptions of plans.
// Pure.
import type { BuildPlan } from '../../protocol/build-plan.schema.ts'
import { type ClearableMember, MASK } from '../../protocol/parts.schema.ts'
import { type Part, RESOURCE_MEMBERS, type ResourceSpec, SCALE_MEMBERS } from '../../protocol/resources.schema.ts'
import { describeDeferred, describeKeptDisks, describeLosses } from './plan-warnings.ts'
import type { RevisionComparison } from './revisions.schema.ts'
import type { DeploymentPatch, NewDeployment, Plan } from './schema.ts'
import type { SecretVersion } from './tables.ts'

type Change = Plan['changes'][number]
type SecretChange = Plan['secrets'][number]
type Effect = 'in_place' | 'revision' | 'immutable'
/** The stored configuration of a deployment; of secrets, their names and versions. */
export type Wanted = {
  version: number
  source_config: Record<string, unknown>
  source_revision_config: Record<string, unknown>
  dormant_parts?: Part[] | null
  secret_references: unknown[] | null
  secrets: SecretVersion[]
}

type MemberRule = { effect: Effect; isMovable?: (value: string) => boolean; isOfRevision?: boolean }
const immutableRule: MemberRule = { effect: 'immutable' }
const inPlaceRule: MemberRule = { effect: 'in_place' }
/** Changes nothing that runs: a revision has the value that the deployment had when it was created. */
const nextRevisionRule: MemberRule = { effect: 'in_place', isOfRevision: true }
const revisionRule: MemberRule = { effect: 'revision', isOfRevision: true }

const COMMIT_SHA = /^[0-9a-f]{40}([0-9a-f]{24})?$/
const IMAGE_DIGEST = /@sha256:[0-9a-f]{64}$/

const RESOURCES = 'source_config.resource_spec'
const MEMBER_RULES: Record<string, MemberRule> = {
  name: immutableRule,
  source: immutableRule,
  'source_config.integration_id': immutableRule,
  'source_config.repo_url': immutableRule,
  'source_config.deployment_type': immutableRule,
  'source_config.template_id': immutableRule,
  'source_config.listener_id': immutableRule,
  'source_config.listener_config': immutableRule,
  'source_config.build_on_push': inPlaceRule,
  'source_config.watch_paths': inPlaceRule,
  'source_config.custom_url': inPlaceRule,
  ...Object.fromEntries(
    RESOURCE_MEMBERS.map(name => [
      `${RESOURCES}.${name}`,
      // Other resources need other copies, which start beside the old ones and can be rolled back.
      SCALE_MEMBERS.includes(name) ? inPlaceRule : revisionRule,
    ]),
  ),
  'source_config.root_directory': nextRevisionRule,
  'source_config.install_command': nextRevisionRule,
  'source_config.build_command': nextRevisionRule,
  'source_config.tracing': nextRevisionRule,
  // A branch or a tag may have moved since: sending the same one again creates a revision.
  'source_revision_config.repo_ref': { ...revisionRule, isMovable: ref => !COMMIT_SHA.test(ref) },
  'source_revision_config.image_uri': { ...revisionRule, isMovable: uri => !IMAGE_DIGEST.test(uri) },
  'source_revision_config.platform_config_path': revisionRule,
  'source_revision_config.source_tarball_path': revisionRule,
  secret_references: revisionRule,
}

export type PatchMember = {
  path: string[]
  value: unknown
  effect: Effect
  /** Counts as changed even if the stored value is the same. */
  isAlwaysNew: boolean
}

export const isSetting = (member: ClearableMember) => member !== 'secrets'

/** Secrets are not among them: they are compared by name. */
export function listPatchMembers(patch: DeploymentPatch, clear: readonly ClearableMember[] = []): PatchMember[] {
  const members: PatchMember[] = []
  for (const [joinedPath, { effect, isMovable }] of Object.entries(MEMBER_RULES)) {
    const path = joinedPath.split('.')
    const value = readPath(patch, path)
    if (value != null) members.push({ path, value, effect, isAlwaysNew: isMovable?.(value as string) ?? false })
  }
  for (const cleared of clear.filter(isSetting)) {
    const names = cleared === 'resource_spec' ? RESOURCE_MEMBERS.map(name => `${cleared}.${name}`) : [cleared]
    for (const joinedPath of names.map(name => `source_config.${name}`)) {
      const { effect } = MEMBER_RULES[joinedPath]!
      members.push({ path: joinedPath.split('.'), value: null, effect, isAlwaysNew: false })
    }
  }
  if (patch.revision_source != null) {
    members.push({ path: ['revision_source'], value: patch.revision_source, effect: 'revision', isAlwaysNew: true })
  }
  return members
}

export const readPath = (from: object, path: string[]): unknown =>
  path.reduce<unknown>((parent, name) => (parent as Record<string, unknown> | null | undefined)?.[name], from) ?? null

export const isMasked = ({ value }: { value: string }): boolean => value === MASK
/** An empty list keeps the secrets as they are. */
export const hasSecrets = (patch: DeploymentPatch): boolean => (patch.secrets?.length ?? 0) > 0
export const replacesSecrets = (patch: DeploymentPatch, clear: readonly ClearableMember[]): boolean =>
  hasSecrets(patch) || clear.includes('secrets')

/** The decision of plan_patch() in the database: paths of members that change, and the deployment's next row. */
export type PatchDecision = {
  reasons: string[]
  in_place: string[]
  immutable: string[]
  kept_secrets: string[] | null
  next: Pick<Wanted, 'source_config' | 'source_revision_config' | 'dormant_parts'>
}

/** Describes a decided patch to people: its changes with their values, and what it takes away. */
export function describePatchPlan(
  wanted: Wanted,
  patch: DeploymentPatch,
  clear: readonly ClearableMember[],
  { reasons, in_place, immutable, kept_secrets, next }: PatchDecision,
): Omit<Plan, 'plan_digest'> {
  const changed = [...reasons, ...in_place, ...immutable]
  const changes = listPatchMembers(patch, clear)
    .map(({ path, value, effect }) => ({
      path: path.join('.'),
      before: readPath(wanted, path),
      // The next resources also have what the patch cannot take away.
      after: path[1] === 'resource_spec' ? readPath(next, path) : isEmptyList(value) ? null : value,
      // A part that comes or goes by its scale needs other copies.
      effect: reasons.includes(path.join('.')) ? ('revision' as const) : effect,
    }))
    .filter(({ path }) => changed.includes(path))
  const sent = patch.secrets ?? []
  const isKept = (name: string) => kept_secrets?.includes(name) ?? false
  const secrets = reasons.includes('secrets') ? listSecretChanges(wanted.secrets, sent, isKept) : []
  if (secrets.length > 0) changes.push(changeOfSecrets(wanted.secrets, sent))
  const [commit, nextCommit] = [wanted, next].map(row => row.source_revision_config.repo_commit_sha ?? null)
  if (commit !== nextCommit) changes.push({ path: COMMIT_PATH, before: commit, after: nextCommit, effect: 'revision' })
  // A part that was dormant acts when it is written again as it was.
  const repeated = changes.filter(
    ({ path, effect, before, after }) =>
      effect === 'revision' && !path.startsWith(RESOURCES) && isJsonEqual(before, after),
  )
  const mayBeNewer = ({ path }: Change) => `\`${path}\` has the same value, but it may point to something newer now.`
  return {
    creates_revision: reasons.length > 0,
    reasons,
    changes,
    secrets,
    warnings: [
      ...describeLosses(changes, resourcesOf(wanted), resourcesOf(next)),
      ...describeKeptDisks(patch.source_config?.resource_spec?.volumes, resourcesOf(next).volumes),
      ...(reasons.length > 0 ? [] : describeDeferred(changes.map(({ path }) => path).filter(isDeferred))),
      ...repeated.map(mayBeNewer),
    ],
  }
}

const resourcesOf = ({ source_config }: Pick<Wanted, 'source_config'>): ResourceSpec =>
  source_config.resource_spec ?? {}
const isDeferred = (path: string) => MEMBER_RULES[path] === nextRevisionRule

/** The commit that the ref resolved to. */
const COMMIT_PATH = 'source_revision_config.repo_commit_sha'

type Named = { name: string }
const namesOf = (named: Named[]) => named.map(({ name }) => name)
const changeOfSecrets = (before: Named[], after: Named[]): Change => ({
  path: 'secrets',
  before: namesOf(before),
  after: namesOf(after),
  effect: 'revision',
})

function listSecretChanges(before: Named[], after: Named[], isKept: (name: string) => boolean): SecretChange[] {
  const [stored, sent] = [new Set(namesOf(before)), new Set(namesOf(after))]
  return [
    ...[...sent]
      .filter(name => !stored.has(name) || !isKept(name))
      .map(name => ({ name, change: stored.has(name) ? ('changed' as const) : ('added' as const) })),
    ...[...stored].filter(name => !sent.has(name)).map(name => ({ name, change: 'removed' as const })),
  ]
}

/** A row of planned_build() in the database, or nulls. */
export type PlannedBuild = [plan: string | null, refusal: string | null]

/** A refusal is a warning here: an agent of a later release may know the source. */
export function withBuild<Found extends Omit<Plan, 'plan_digest'>>(plan: Found, [build, refusal]: PlannedBuild): Found {
  return {
    ...plan,
    ...(build !== null && { build_plan: JSON.parse(build) as BuildPlan }),
    ...(refusal !== null && { warnings: [...plan.warnings, `The archive cannot be deployed: ${refusal}`] }),
  }
}

/** The plan of a new deployment. Everything in it is new. */
export function planCreation({ name, source, ...input }: NewDeployment): Omit<Plan, 'plan_digest'> {
  const added = (path: string, after: unknown, effect: Effect): Change => ({ path, before: null, after, effect })
  const members = listPatchMembers(input).map(({ path, value, effect }) =>
    added(path.join('.'), value, effect === 'revision' ? 'revision' : 'in_place'),
  )
  const secrets = input.secrets.length > 0 ? [added('secrets', namesOf(input.secrets), 'revision')] : []
  const changes = [added('name', name, 'in_place'), added('source', source, 'in_place'), ...members, ...secrets]
  const secretChanges = listSecretChanges([], input.secrets, () => false)
  return { creates_revision: true, reasons: ['created'], changes, secrets: secretChanges, warnings: [] }
}

export type RevisionContent = Omit<Wanted, 'version'>
const REVISION_MEMBERS = Object.keys(MEMBER_RULES).filter(path => MEMBER_RULES[path]!.isOfRevision)
const pathsInConfig = (isWanted: (rule: MemberRule) => boolean) =>
  Object.keys(MEMBER_RULES)
    .filter(path => isWanted(MEMBER_RULES[path]!))
    .map(path => path.replace('source_config.', ''))
/** Paths in `source_config`. A patch of them creates no revision. */
export const IN_PLACE_MEMBERS = pathsInConfig(({ effect }) => effect === 'in_place')
/** These are members of the deployment, not of a revision: a rollback keeps them. */
export const KEPT_MEMBERS = pathsInConfig(({ effect, isOfRevision }) => effect === 'in_place' && !isOfRevision)

/** The plan of a redeploy or a rollback. `to` is what restored_config() of the database makes of the older revision. */
export function planRestoreChanges(
  wanted: RevisionContent,
  to: RevisionContent,
  reason: string,
): Omit<Plan, 'plan_digest'> {
  const differences = listDifferences([...REVISION_MEMBERS, COMMIT_PATH], wanted, to)
  const changes: Change[] = differences.map(difference => ({ ...difference, effect: 'revision' }))
  const [versions, restored] = [versionsOf(wanted.secrets), versionsOf(to.secrets)]
  const secrets = listSecretChanges(wanted.secrets, to.secrets, name => versions.get(name) === restored.get(name))
  if (secrets.length > 0) changes.push(changeOfSecrets(wanted.secrets, to.secrets))
  const warnings = describeLosses(changes, resourcesOf(wanted), resourcesOf(to))
  return { creates_revision: true, reasons: [reason], changes, secrets, warnings }
}

const versionsOf = (secrets: SecretVersion[]) => new Map(secrets.map(({ name, version }) => [name, version]))

type Difference = RevisionComparison['changes'][number]
const listDifferences = (paths: string[], from: object, to: object): Difference[] =>
  paths
    .map(path => {
      const [before, after] = [from, to].map(content => readPath(content, path.split('.')))
      return { path, before, after }
    })
    .filter(({ before, after }) => !isJsonEqual(before, after))

/** Every member of the configuration that differs, and the versions of secrets. */
export function compareRevisions(from: RevisionContent, to: RevisionContent): Difference[] {
  const [versionsBefore, versionsAfter] = [versionsOf(from.secrets), versionsOf(to.secrets)]
  const secrets = [...new Set([...versionsBefore.keys(), ...versionsAfter.keys()])].sort().map(name => ({
    path: `secrets.${name}`,
    before: versionsBefore.get(name) ?? null,
    after: versionsAfter.get(name) ?? null,
  }))
  return [
    ...listDifferences([...Object.keys(MEMBER_RULES).filter(path => path !== 'name'), COMMIT_PATH], from, to),
    ...secrets.filter(({ before, after }) => before !== after),
  ]
}

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0

/** The order of members does not matter, the order of items does. */
export function isJsonEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const members = Object.entries(a)
  return (
    members.length === Object.keys(b).length &&
    members.every(([name, value]) => Object.hasOwn(b, name) && isJsonEqual(value, (b as Record<string, unknown>)[name]))
  )
}
