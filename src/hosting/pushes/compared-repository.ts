// The facts that comparisons of a repository share.
import type { OutboxItem } from '../../kernel/db/outbox.ts'
import type { Integration } from '../git-hosts/githost.ts'
import type { PreviewRow } from '../previews/preview-deployment.ts'
import type { PolicyRow } from '../previews/preview-policy.ts'
import type { FollowedRepository } from './followed-repositories.ts'

export type ComparedRepository = OutboxItem & { repository: FollowedRepository; integration: Integration }
/** Throws once the comparison has taken too long. */
export type RequireTime = () => void
export const MAX_REPAIRS = 25

type KnownPreview = Pick<
  PreviewRow,
  'kind' | 'number' | 'branch' | 'fork' | 'state' | 'head_sha' | 'changed_at' | 'end_reason'
>
export type PreviewParent = Pick<PolicyRow, 'id' | 'version' | 'branches' | 'kinds' | 'ttl_seconds'> & {
  previews: KnownPreview[]
}
