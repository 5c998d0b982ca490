// The facts that comparisons of a repository share.
import type { OutboxItem } from '../../kernel/db/outbox.ts'
import type { Integration } from '../git-hosts/githost.ts'
import type { PolicyRow } from '../previews/preview-policy.ts'
import type { FollowedRepository } from './followed-repositories.ts'

export type ComparedRepository = OutboxItem & { repository: FollowedRepository; integration: Integration }
/** Throws once the comparison has taken too long. */
export type RequireTime = () => void
export const MAX_REPAIRS = 25

/** `room`: how many more previews the policy allows. `digest`: of all stored previews. */
export type PreviewParent = Pick<
  PolicyRow,
  'id' | 'version' | 'branches' | 'kinds' | 'ttl_seconds' | 'existing_branches'
> & {
  repo_ref: string
  room: number
  has_pulls: boolean
  has_branch_previews: boolean
  digest: string
}
