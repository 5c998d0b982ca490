// Compares the branches of a repository with their previews, for policies that follow branches.
import type { Etags, Githost } from '../git-hosts/githost.ts'
import { handleBranch } from '../previews/branch-previews.ts'
import { type GlobBudget, matchesGlobs, parseGlobs } from './branch-globs.ts'
import { type ComparedRepository, MAX_REPAIRS, type PreviewParent, type RequireTime } from './compared-repository.ts'
import type { DeliveryContext } from './find-integration.ts'

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
 * A branch gets a preview when it is pushed to. So the heads of the last comparison are stored: a branch that is the
 * same since then, and has no preview, gets none. Nothing is known at first.
 */
export async function compareBranches(comparison: BranchComparison): Promise<ComparedBranches> {
  const { context, host, item, url, etags, requireTime } = comparison
  const { repository, integration } = item
  const parents = comparison.parents.filter(
    ({ kinds, previews }) => kinds.includes('branches') || previews.some(({ kind, state }) => isAlive({ kind, state })),
  )
  const known = repository.branch_heads
  if (parents.length === 0) return { heads: null, isPartial: false }
  requireTime()
  const listed = await host.branches(url, etags)
  if (listed === 'unchanged') return { heads: known, isPartial: false }
  const missed = [...listMissed(parents, known, listed), ...listGone(parents, listed)]
  const heads: Heads = { ...listed }
  const left = missed.slice(MAX_REPAIRS)
  for (const { parent_id, branch } of missed.slice(0, MAX_REPAIRS)) {
    requireTime()
    const after = headOf(listed, branch) ?? null
    const push = { repo_urls: [url], ref: `refs/heads/${branch}`, before: null, after, sender: null, commit: null }
    await handleBranch(context, integration, { ...push, created: false, deleted: after === null }, [parent_id])
  }
  // They differ in the next comparison, too.
  for (const { branch } of left) {
    const before = known ? headOf(known, branch) : undefined
    if (before === undefined) delete heads[branch]
    else heads[branch] = before
  }
  if (left.length > 0) for (const name of Object.keys(etags)) if (name.includes('/branches?')) delete etags[name]
  return { heads, isPartial: left.length > 0 }
}

type Missed = { parent_id: string; branch: string }
type Known = PreviewParent['previews'][number]
/** About 50 ms. A host chooses the names, and whoever set the policy the globs. */
const MAX_GLOB_STEPS = 3_000_000
const isAlive = ({ kind, state }: Pick<Known, 'kind' | 'state'>) => kind === 'branch' && state !== 'ended'

/** Branches that take too long to match are missed ones, too: `handleBranch` matches each by itself. */
function listMissed(parents: PreviewParent[], known: Heads | null, listed: Heads): Missed[] {
  const budget: GlobBudget = { left: MAX_GLOB_STEPS }
  return parents.flatMap(({ id: parent_id, kinds, branches, previews }) => {
    const byBranch = new Map(previews.filter(({ kind }) => kind === 'branch').map(one => [one.branch, one]))
    const follows = kinds.includes('branches')
    const closed = new Map(previews.filter(isClosed).map(({ branch, head_sha }) => [branch, head_sha]))
    const globs = parseGlobs(branches)
    const isCovered = (branch: string) => matchesGlobs(globs, branch, budget) || budget.left < 0
    const pulled = new Set(previews.filter(isOpenPull).map(({ branch }) => branch))
    return Object.entries(listed).flatMap(([branch, sha]) => {
      const preview = byBranch.get(branch)
      if (preview?.head_sha === sha && (isAlive(preview) || isKept(preview))) return []
      if (preview && isAlive(preview)) return [{ parent_id, branch }]
      const isMoved = known !== null && headOf(known, branch) !== sha
      // A crash may have come between the end of a pull request's preview and the branch's own.
      const isBack = preview === undefined ? closed.get(branch) === sha : !isKept(preview)
      return follows && !pulled.has(branch) && (isMoved || isBack) && isCovered(branch) ? [{ parent_id, branch }] : []
    })
  })
}

/** The same as `isOpenPull` of branch-previews.ts. */
const isOpenPull = ({ kind, fork, state, end_reason }: Known) =>
  kind === 'pull_request' && !fork && (state === 'ended' ? REMOVED.includes(end_reason ?? '') : state !== 'denied')
const isClosed = ({ kind, fork, end_reason }: Known) => kind === 'pull_request' && !fork && end_reason === 'closed'
const REMOVED = ['removed', 'expired', 'deleted']

/** One that was removed, or has expired, comes back only with another commit. */
const isKept = ({ end_reason }: Known) => end_reason !== 'branch_deleted' && end_reason !== 'pull_request'

/** A long list is cut, so that the branch itself is asked for. */
const listGone = (parents: PreviewParent[], listed: Heads): Missed[] =>
  parents.flatMap(({ id, previews }) =>
    previews
      .filter(preview => isAlive(preview) && headOf(listed, preview.branch) === undefined)
      .map(({ branch }) => ({ parent_id: id, branch })),
  )
