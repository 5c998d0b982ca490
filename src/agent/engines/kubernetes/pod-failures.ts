// Explains why pods do not run, as a sentence that a user can act on, and whether waiting helps. Pure.
import type { CoreV1Event, V1ContainerStatus, V1Deployment, V1Pod } from '@kubernetes/client-node'
import { COMPONENT_LABEL } from './names.ts'
import { APP_PORT } from './pod-template.ts'

export type Finding = {
  reason: string
  /** The time in milliseconds from which waiting does not help. */
  hopeless_at: number
  /** The container whose last lines show more; `previous` if it does not run now. */
  log: { pod: string; container: string; previous: boolean } | null
}
type FailureEvidence = { deployments: V1Deployment[]; pods: V1Pod[]; events: CoreV1Event[] }

/** A crash loop. */
const MAX_CRASHES = 5
/** The time for a missing registry, quota or secret to appear. */
const PATIENCE_MS = 60_000
const [NOW, NEVER] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]

const hopelessAfter = (since: Date | undefined) => (since ? new Date(since).getTime() + PATIENCE_MS : NEVER)
const trimSentence = (text: string | undefined) => (text ?? '').trim().replace(/\.$/, '')

export const explainExceededQuota = (message: string) =>
  `The quota of the namespace is exceeded (${message}). Lower resource_spec, or ask the operator to raise the quota.`

/** The most urgent finding; null if nothing is wrong, or nothing is known yet. */
export function worstFinding(evidence: FailureEvidence): Finding | null {
  const findings = [
    ...evidence.deployments.flatMap(deploymentFindings),
    ...evidence.pods.filter(({ metadata }) => !metadata?.deletionTimestamp).flatMap(pod => podFindings(pod, evidence)),
  ]
  const overdue = evidence.deployments.some(({ status }) =>
    status?.conditions?.some(
      ({ type, status, reason }) =>
        type === 'Progressing' && status === 'False' && reason === 'ProgressDeadlineExceeded',
    ),
  )
  if (findings.length === 0)
    return overdue ? { reason: 'It did not become healthy in time.', hopeless_at: NOW, log: null } : null
  const worst = findings.reduce((worst, finding) => (finding.hopeless_at < worst.hopeless_at ? finding : worst))
  return overdue ? { ...worst, hopeless_at: NOW } : worst
}

function deploymentFindings({ status }: V1Deployment): Finding[] {
  const failure = status?.conditions?.find(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  if (!failure) return []
  const message = trimSentence(failure.message)
  const until = hopelessAfter(failure.lastTransitionTime)
  const finding = (reason: string, hopeless_at: number): Finding[] => [{ reason, hopeless_at, log: null }]
  if (/exceeded quota/.test(message)) return finding(explainExceededQuota(message), until)
  if (/violates PodSecurity/.test(message))
    return finding(
      `The namespace does not allow this pod (${message}). ` +
        `Remove the settings it names from the containers and volumes in resource_spec.`,
      NOW,
    )
  if (/service ?account/i.test(message))
    return finding(
      `Its service account is missing (${message}). ` +
        `Create the account that service_account_name names, or remove service_account_name.`,
      until,
    )
  if (message.includes('failed quota') || /\b(?:minimum|maximum) \w+ usage/.test(message))
    return finding(
      `The namespace requires other amounts (${message}). ` +
        `Change them in resource_spec, also in sidecars and init_containers.`,
      until,
    )
  return finding(`Kubernetes cannot create its pod: ${message}.`, until)
}

function podFindings(pod: V1Pod, evidence: FailureEvidence): Finding[] {
  const { status } = pod
  const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]
  const findings = containers.flatMap(container => containerFindings(pod, container))
  if (findings.length > 0) return findings
  const withoutDeadline = (reason: string): Finding[] => [{ reason, hopeless_at: NEVER, log: null }]
  if (status?.reason === 'Evicted')
    return withoutDeadline(
      `Its node evicted it: ${trimSentence(status.message)}. Set the amounts in resource_spec to what it really uses.`,
    )
  const unscheduled = status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False')
  if (unscheduled?.reason === 'Unschedulable')
    return withoutDeadline(explainUnschedulable(trimSentence(unscheduled.message)))
  const warnings = evidence.events
    .filter(({ involvedObject, type }) => involvedObject.uid === pod.metadata?.uid && type === 'Warning')
    .sort((a, b) => timestampOf(b) - timestampOf(a))
  const mount = warnings.find(({ reason }) => reason === 'FailedMount' || reason === 'FailedAttachVolume')
  if (mount && status?.phase === 'Pending')
    return withoutDeadline(
      `One of its volumes cannot be mounted: ${trimSentence(mount.message)}. Check the volumes in resource_spec.`,
    )
  const probe = warnings.find(({ reason }) => reason === 'Unhealthy')
  const unready = status?.containerStatuses?.find(({ ready, state }) => !ready && state?.running)
  if (probe && unready) {
    const log = { pod: pod.metadata!.name!, container: unready.name, previous: false }
    return [{ reason: explainUnhealthy(trimSentence(probe.message), pod), hopeless_at: NEVER, log }]
  }
  return []
}
const timestampOf = ({ lastTimestamp, eventTime, firstTimestamp }: CoreV1Event) =>
  new Date(lastTimestamp ?? eventTime ?? firstTimestamp ?? 0).getTime()

function explainUnschedulable(message: string): string {
  if (/PersistentVolumeClaim|persistentvolumeclaim/.test(message))
    return `Its volume does not exist yet (${message}). Check the cluster’s storage class and its free capacity.`
  return `No node has room for it (${message}). Lower cpu and memory in resource_spec, or add nodes.`
}

function explainUnhealthy(message: string, pod: V1Pod): string {
  const isApplication = pod.metadata?.labels?.[COMPONENT_LABEL] === 'web'
  if (isApplication && /connection refused/.test(message))
    return `Nothing listens on port ${APP_PORT}, the value of PORT (${message}). Listen on that port, on all addresses.`
  return `Its health check fails (${message}). Make health_path answer with a status below 400.`
}

function containerFindings(pod: V1Pod, container: V1ContainerStatus): Finding[] {
  const { name, image, state, lastState, restartCount } = container
  const until = hopelessAfter(pod.status?.startTime ?? pod.metadata?.creationTimestamp)
  const waiting = state?.waiting
  const message = trimSentence(waiting?.message)
  const finding = (reason: string, hopeless_at: number, log: Finding['log'] = null): Finding[] => [
    { reason, hopeless_at, log },
  ]
  switch (waiting?.reason) {
    case 'InvalidImageName':
      return finding(`${image} is not a valid image name (${message}). Correct it.`, NOW)
    case 'ErrImagePull':
    case 'ImagePullBackOff':
    case 'ErrImageNeverPull':
    case 'RegistryUnavailable':
    case 'ImageInspectError':
      return finding(
        `The image ${image} cannot be pulled (${message || waiting.reason}). ` +
          `Check that it exists, and that image_pull_secrets may read it.`,
        until,
      )
    case 'CreateContainerConfigError':
    case 'CreateContainerError':
      if (/runAsNonRoot|non-root|non-numeric user/.test(message))
        return finding(
          `The image ${image} runs as root or sets its user by name, which this cluster does not allow ` +
            `(${message}). Set a numeric USER above 0 in the image.`,
          NOW,
        )
      return finding(
        `The container ${name} cannot be created (${message || waiting.reason}). ` +
          `Check the secrets, keys and volumes that it names.`,
        until,
      )
  }
  const end = state?.terminated ?? lastState?.terminated
  // The container succeeded, or it runs again.
  if (!end || (state?.terminated && end.exitCode === 0) || (state?.running && container.ready)) return []
  const hopelessAt = restartCount + (state?.terminated ? 1 : 0) >= MAX_CRASHES ? NOW : NEVER
  const log = { pod: pod.metadata!.name!, container: name, previous: !state?.terminated }
  if (end.reason === 'OOMKilled')
    return finding(
      `The container ${name} was killed because it exceeded its memory limit. Raise memory_limit_mb.`,
      hopelessAt,
      log,
    )
  if (end.reason === 'StartError' || end.reason === 'ContainerCannotRun')
    return finding(
      `The container ${name} cannot be started (${trimSentence(end.message)}). Check its command.`,
      hopelessAt,
      log,
    )
  const exit = end.signal ? `by signal ${end.signal}` : `with exit code ${end.exitCode}`
  const times = restartCount > 0 ? `, ${restartCount + (state?.terminated ? 1 : 0)} times so far` : ''
  return finding(`The container ${name} ended ${exit}${times}. Check its log.`, hopelessAt, log)
}

/** The reason, and as many of the last lines as fit into a report. */
export function withLog(reason: string, lines: string[], maxLength = 2000): string {
  const head = reason.slice(0, maxLength)
  if (lines.length === 0) return head
  const intro = '\nThe last lines of its log:\n'
  const room = maxLength - head.length - intro.length
  if (room < 40) return head
  // Never cut the beginning of a line: the masks would not recognize half of a secret.
  let [start, left] = [lines.length, room]
  while (start > 0 && lines[start - 1]!.length + 1 <= left) left -= lines[--start]!.length + 1
  const whole = lines.slice(start)
  const fitting = whole.length > 0 ? whole : [`${lines.at(-1)!.slice(0, room - 2)}…`]
  return head + intro + (start > 0 && whole.length > 0 && left > 1 ? ['…', ...whole] : fitting).join('\n')
}
