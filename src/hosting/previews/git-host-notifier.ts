// Tells git hosts how commits get on, right after a revision moved. The sweep tells what this leaves.
import type { Services } from '../../kernel/http/routes.ts'
import { sendCommitStatuses } from '../pushes/commit-statuses.ts'
import { notifyPullRequests } from './pull-request-notifications.ts'

export async function notifyGitHosts(services: Services, deployment_ids: string[]): Promise<void> {
  // A revision that moves while its host is told of the state before is told in the second round.
  for (let round = 1; round <= 2; round++) {
    await sendCommitStatuses(services, { within: deployment_ids })
    await notifyPullRequests(services, { previewsOf: deployment_ids })
  }
}
