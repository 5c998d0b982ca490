// The closed set of error codes. Each has a status, a title, a sentence for the problem and one for the remedy.

import { channelsCodes } from '../../connect/channels/codes.ts'
import { modelsCodes } from '../../connect/models/codes.ts'
import { oauthCodes } from '../../connect/oauth/codes.ts'
import { webhooksCodes } from '../../connect/webhooks/codes.ts'
import { alertsCodes } from '../../hosting/alerts/codes.ts'
import { customHostsCodes } from '../../hosting/custom-hosts/codes.ts'
import { deployHooksCodes } from '../../hosting/deploy-hooks/codes.ts'
import { deploymentsCodes } from '../../hosting/deployments/codes.ts'
import { drainsCodes } from '../../hosting/drains/codes.ts'
import { gitHostsCodes } from '../../hosting/git-hosts/codes.ts'
import { jobsCodes } from '../../hosting/jobs/codes.ts'
import { listenersCodes } from '../../hosting/listeners/codes.ts'
import { logsCodes } from '../../hosting/logs/codes.ts'
import { previewsCodes } from '../../hosting/previews/codes.ts'
import { protectionCodes } from '../../hosting/protection/codes.ts'
import { pushesCodes } from '../../hosting/pushes/codes.ts'
import { registryCodes } from '../../hosting/registry/codes.ts'
import { relayCodes } from '../../hosting/relay/codes.ts'
import { rolloutsCodes } from '../../hosting/rollouts/codes.ts'
import { snapshotsCodes } from '../../hosting/snapshots/codes.ts'
import { tagsCodes } from '../../hosting/tags/codes.ts'
import { trafficCodes } from '../../hosting/traffic/codes.ts'
import { uploadsCodes } from '../../hosting/uploads/codes.ts'
import { accessCodes } from '../../people/access/codes.ts'
import { auditCodes } from '../../people/audit/codes.ts'
import { authorizationServerCodes } from '../../people/authorization-server/codes.ts'
import { signInCodes } from '../../people/sign-in/codes.ts'
import { datasetsCodes } from '../../tracing/datasets/codes.ts'
import { feedbackCodes } from '../../tracing/feedback/codes.ts'
import { ingestCodes } from '../../tracing/ingest/codes.ts'
import { insightsCodes } from '../../tracing/insights/codes.ts'
import { projectsCodes } from '../../tracing/projects/codes.ts'
import { queuesCodes } from '../../tracing/queues/codes.ts'
import { rulesCodes } from '../../tracing/rules/codes.ts'
import { runsCodes } from '../../tracing/runs/codes.ts'
import { sharesCodes } from '../../tracing/shares/codes.ts'
import { sharedCodes } from './shared-codes.ts'

const CODES = {
  ...sharedCodes,
  ...accessCodes,
  ...gitHostsCodes,
  ...listenersCodes,
  ...oauthCodes,
  ...webhooksCodes,
  ...channelsCodes,
  ...drainsCodes,
  ...signInCodes,
  ...auditCodes,
  ...authorizationServerCodes,
  ...deploymentsCodes,
  ...uploadsCodes,
  ...registryCodes,
  ...relayCodes,
  ...alertsCodes,
  ...customHostsCodes,
  ...protectionCodes,
  ...trafficCodes,
  ...rolloutsCodes,
  ...snapshotsCodes,
  ...logsCodes,
  ...tagsCodes,
  ...runsCodes,
  ...ingestCodes,
  ...projectsCodes,
  ...feedbackCodes,
  ...sharesCodes,
  ...modelsCodes,
  ...datasetsCodes,
  ...queuesCodes,
  ...rulesCodes,
  ...insightsCodes,
  ...pushesCodes,
  ...previewsCodes,
  ...deployHooksCodes,
  ...jobsCodes,
}

export type Code = keyof typeof CODES
export const codes = Object.keys(CODES) as Code[]
export const isCode = (word: unknown): word is Code => typeof word === 'string' && Object.hasOwn(CODES, word)
export const statusOf = (code: Code): number => CODES[code].status
export const titleOf = (code: Code): string => CODES[code].title

const endless = (sentence: string): string => sentence.replace(/\.$/, '')

export function detailOf(code: Code, subject?: string): string {
  const { problem, remedy } = CODES[code]
  return subject === undefined ? `${problem} ${remedy}` : `${endless(problem)}: ${endless(subject)}. ${remedy}`
}

export const listCodes = () =>
  codes.map(code => ({ code, status: statusOf(code), title: titleOf(code), detail: detailOf(code) }))
export const codesWithStatus = (status: number) => listCodes().filter(listed => listed.status === status)
