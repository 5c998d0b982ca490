// Compares the branches of a repository with their previews, for policies that follow branches.
import type { Etags, Githost } from '../git-hosts/githost.ts'
import { handleBranch } from '../previews/branch-previews.ts'
import { branchRef } from '../previews/preview-deployment.ts'
import { type GlobBudget, matchesGlobs, parseGlobs } from './branch-globs.ts'
import { type ComparedRepository, MAX_REPAIRS, type PreviewParent, type RequireTime } from './compared-repository.ts'
import { followExisting } from './existing-branches.ts'
import type { DeliveryContext } from './find-integration.ts'
import { findOfBranches, findUnlistedBranches, type KnownPreview } from './known-previews.ts'
import { refSpellings } from './webhook-payloads.ts'

type BranchComparison = {
  context: DeliveryContext
  host: Githost
  item: ComparedRepository
  url: string
  parents: PreviewParent[]
  etags: Etags
  requireTime: RequireTime
}
type Heads = Record<string, string>
/** A branch can be called `constructor`. */
const headOf = (heads: Heads, branch: string) => (Object.hasOwn(heads, branch) ? heads[branch] : undefined)
/** `heads`: as far as they were applied. Null: nothing follows branches. */
type ComparedBranches = { heads: Heads | null; isPartial: boolean }

/**
 * A branch gets a preview when it is pushed to, or when its policy is set. So the heads of the last comparison are
 * stored: a branch that is the same since then, and has no preview, gets none.
 */
export async function compareBranches(comparison: BranchComparison): Promise<ComparedBranches> {
  const { context, host, item, url, etags, requireTime } = comparison
  const { repository, integration } = item
  const { services } = context
  const parents = comparison.parents.filter(
    ({ kinds, has_branch_previews }) => kinds.includes('branches') || has_branch_previews,
  )
  const known = repository.branch_heads
  if (parents.length === 0) return { heads: null, isPartial: false }
  requireTime()
  const listed = await host.branches(url, etags)
  if (listed === 'unchanged') return { heads: known, isPartial: false }
  const names = Object.keys(listed)
  const follow = async (parent_id: string, branch: string) => {
    requireTime()
    const after = headOf(listed, branch) ?? null
    const push = { repo_urls: [url], ref: branchRef(branch), before: null, after, sender: null, commit: null }
    await handleBranch(context, integration, { ...push, created: false, deleted: after === null }, [parent_id])
  }
  const budget: GlobBudget = { left: MAX_GLOB_STEPS }
  const missed: Missed[] = []
  const existing: { parent: PreviewParent; branches: string[] }[] = []
  // One after another: each may have a preview of every branch.
  for (const parent of parents) {
    requireTime()
    const previews = await findOfBranches(services, parent.id, names)
    const candidates = listCandidates(parent, previews, listed, budget)
    missed.push(...candidates.filter(one => isMissed(one, known, listed)).map(({ branch }) => ({ parent, branch })))
    const gone = await findUnlistedBranches(services, parent.id, names, MAX_REPAIRS + 1)
    missed.push(...gone.map(({ branch }) => ({ parent, branch })))
    existing.push({
      parent,
      branches: candidates.filter(({ preview }) => preview === undefined || !isKept(preview)).map(one => one.branch),
    })
  }
  const heads: Heads = { ...listed }
  const left = missed.slice(MAX_REPAIRS)
  for (const { parent, branch } of missed.slice(0, MAX_REPAIRS)) await follow(parent.id, branch)
  // They differ in the next comparison, too.
  for (const { branch } of left) {
    const before = known ? headOf(known, branch) : undefined
    if (before === undefined) delete heads[branch]
    else heads[branch] = before
  }
  let isPartial = left.length > 0
  for (const { parent, branches } of existing) {
    const makePreview = (branch: string) => follow(parent.id, branch)
    if (await followExisting({ context, integration, parent, branches, makePreview })) isPartial = true
  }
  if (isPartial) for (const name of Object.keys(etags)) if (name.includes('/branches?')) delete etags[name]
  return { heads, isPartial }
}

type Missed = { parent: PreviewParent; branch: string }
/** About 50 ms. A host chooses the names, and whoever set the policy the globs. */
const MAX_GLOB_STEPS = 3_000_000
const isAlive = ({ state }: KnownPreview) => state !== 'ended'

/** `closed_sha`: the last head of a pull request of the branch that was closed. */
type Candidate = { branch: string; preview: KnownPreview | undefined; closed_sha: string | null | undefined }

/**
 * The branches that have a preview, or could have one. Those that take too long to match are among them: `handleBranch`
 * matches each by itself.
 */
function listCandidates(
  { kinds, branches, repo_ref }: PreviewParent,
  previews: KnownPreview[],
  listed: Heads,
  budget: GlobBudget,
): Candidate[] {
  const byBranch = new Map(previews.filter(({ kind }) => kind === 'branch').map(one => [one.branch, one]))
  const closed = new Map(previews.filter(isClosed).map(({ branch, head_sha }) => [branch, head_sha]))
  const taken = new Set(previews.filter(isTaken).map(({ branch }) => branch))
  const globs = parseGlobs(branches)
  const follows = kinds.includes('branches')
  const isCovered = (branch: string) =>
    follows &&
    !taken.has(branch) &&
    !refSpellings(branchRef(branch)).includes(repo_ref) &&
    (matchesGlobs(globs, branch, budget) || budget.left < 0)
  return Object.keys(listed).flatMap(branch => {
    const preview = byBranch.get(branch)
    const isFollowed = (preview && isAlive(preview)) || isCovered(branch)
    return isFollowed ? [{ branch, preview, closed_sha: closed.get(branch) }] : []
  })
}

function isMissed({ branch, preview, closed_sha }: Candidate, known: Heads | null, listed: Heads): boolean {
  const sha = headOf(listed, branch)
  if (preview && isAlive(preview)) return preview.head_sha !== sha
  if (preview && isKept(preview) && preview.head_sha === sha) return false
  const isMoved = known !== null && headOf(known, branch) !== sha
  // A crash may have come between the end of a pull request's preview and the branch's own.
  return isMoved || (preview === undefined ? closed_sha === sha : !isKept(preview))
}

/** A pull request that is open, as `isOpenPull` of branch-previews.ts says, or a request has the branch. */
const isTaken = ({ kind, state, end_reason }: KnownPreview) =>
  kind === 'request'
    ? state !== 'ended'
    : kind === 'pull_request' && (state === 'ended' ? REMOVED.includes(end_reason ?? '') : state !== 'denied')
const isClosed = ({ kind, end_reason }: KnownPreview) => kind === 'pull_request' && end_reason === 'closed'
const REMOVED = ['removed', 'expired', 'deleted']

/** One that was removed, or has expired, comes back only with another commit. */
const isKept = ({ state, end_reason }: KnownPreview) =>
  state !== 'ended' || (end_reason !== 'branch_deleted' && end_reason !== 'pull_request')
