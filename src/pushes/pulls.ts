// Pull requests.
import type { Integration } from '../integrations/githost.ts'
import type { PullRequest } from './events.ts'
import type { Work } from './whose.ts'
export async function pulled(_work: Work, _integration: Integration, _event: PullRequest): Promise<void> {}
