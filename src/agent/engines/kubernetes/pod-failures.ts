// Why pods do not run, in a sentence that a person can act on, and whether waiting helps. Pure.
import type { CoreV1Event, V1ContainerStatus, V1Deployment, V1Pod } from '@kubernetes/client-node'
import { COMPONENT_LABEL } from './names.ts'
import { APP_PORT } from './pod-template.ts'

export type Finding = {
  reason: string
  /** From when on waiting does not help, as a time in milliseconds. */
  hopeless_at: number
  /** Whose last lines would tell more; of its last life where it has none now. */
  log: { pod: string; container: string; previous: boolean } | null
}
type FailureEvidence = { deployments: V1Deployment[]; pods: V1Pod[]; events: CoreV1Event[] }

/** That many ends in a row are a loop. */
const MAX_CRASHES = 5
/** A registry, a quota or a secret may come back or still be on its way. */
const PATIENCE_MS = 60_000
const [NOW, NEVER] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]

const hopelessAfter = (since: Date | undefined) => (since ? new Date(since).getTime() + PATIENCE_MS : NEVER)
const trimSentence = (text: string | undefined) => (text ?? '').trim().replace(/\.$/, '')

/** The worst that is to be told; null where nothing is wrong, or nothing is known yet. */
export function worstFinding(world: FailureEvidence): Finding | null {
  const findings = [
    ...world.deployments.flatMap(deploymentFindings),
    ...world.pods.filter(({ metadata }) => !metadata?.deletionTimestamp).flatMap(pod => podFindings(pod, world)),
  ]
  const overdue = world.deployments.some(({ status }) =>
    status?.conditions?.some(
      ({ type, status, reason }) =>
        type === 'Progressing' && status === 'False' && reason === 'ProgressDeadlineExceeded',
    ),
  )
  if (findings.length === 0)
    return overdue ? { reason: 'It did not become healthy in time.', hopeless_at: NOW, log: null } : null
  const worst = findings.reduce((worst, one) => (one.hopeless_at < worst.hopeless_at ? one : worst))
  return overdue ? { ...worst, hopeless_at: NOW } : worst
}

function deploymentFindings({ status }: V1Deployment): Finding[] {
  const failure = status?.conditions?.find(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  if (!failure) return []
  const message = trimSentence(failure.message)
  const until = hopelessAfter(failure.lastTransitionTime)
  const told = (reason: string, hopeless_at: number): Finding[] => [{ reason, hopeless_at, log: null }]
  if (/exceeded quota/.test(message))
    return told(
      `The namespace’s quota is used up (${message}). Ask for less in resource_spec, or have the quota raised.`,
      until,
    )
  if (/violates PodSecurity/.test(message))
    return told(
      `The namespace does not allow such a pod (${message}). Take what it names out of the containers and volumes of resource_spec.`,
      NOW,
    )
  if (/service ?account/i.test(message))
    return told(
      `Its service account is missing (${message}). Create the one that service_account_name names, or leave that out.`,
      until,
    )
  if (message.includes('failed quota') || /\b(?:minimum|maximum) \w+ usage/.test(message))
    return told(
      `The namespace asks for other amounts (${message}). Change them in resource_spec, also of its sidecars and init_containers.`,
      until,
    )
  return told(`Kubernetes makes no pod of it: ${message}.`, until)
}

function podFindings(pod: V1Pod, world: FailureEvidence): Finding[] {
  const { status } = pod
  const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]
  const found = containers.flatMap(container => containerFindings(pod, container))
  if (found.length > 0) return found
  const plain = (reason: string): Finding[] => [{ reason, hopeless_at: NEVER, log: null }]
  if (status?.reason === 'Evicted')
    return plain(
      `Its node sent it away: ${trimSentence(status.message)}. Ask for what it really uses in resource_spec.`,
    )
  const unscheduled = status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False')
  if (unscheduled?.reason === 'Unschedulable') return plain(explainUnschedulable(trimSentence(unscheduled.message)))
  const told = world.events
    .filter(({ involvedObject, type }) => involvedObject.uid === pod.metadata?.uid && type === 'Warning')
    .sort((a, b) => timestampOf(b) - timestampOf(a))
  const mount = told.find(({ reason }) => reason === 'FailedMount' || reason === 'FailedAttachVolume')
  if (mount && status?.phase === 'Pending')
    return plain(
      `A volume of it cannot be mounted: ${trimSentence(mount.message)}. Check what volumes in resource_spec name.`,
    )
  const probe = told.find(({ reason }) => reason === 'Unhealthy')
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
    return `Its volume is not there yet (${message}). Check the cluster’s storage class and what it has left.`
  return `No node has room for it (${message}). Ask for less cpu and memory in resource_spec, or add nodes.`
}

function explainUnhealthy(message: string, pod: V1Pod): string {
  const application = pod.metadata?.labels?.[COMPONENT_LABEL] === 'web'
  if (application && /connection refused/.test(message))
    return `Nothing listens on port ${APP_PORT}, which it is given as PORT (${message}). Listen there, on all addresses.`
  return `Its health check fails (${message}). Make health_path answer with a status below 400.`
}

function containerFindings(pod: V1Pod, container: V1ContainerStatus): Finding[] {
  const { name, image, state, lastState, restartCount } = container
  const until = hopelessAfter(pod.status?.startTime ?? pod.metadata?.creationTimestamp)
  const waiting = state?.waiting
  const message = trimSentence(waiting?.message)
  const told = (reason: string, hopeless_at: number, log: Finding['log'] = null): Finding[] => [
    { reason, hopeless_at, log },
  ]
  switch (waiting?.reason) {
    case 'InvalidImageName':
      return told(`${image} is not the name of an image (${message}). Correct it.`, NOW)
    case 'ErrImagePull':
    case 'ImagePullBackOff':
    case 'ErrImageNeverPull':
    case 'RegistryUnavailable':
    case 'ImageInspectError':
      return told(
        `The image ${image} cannot be pulled (${message || waiting.reason}). Check that it is there, and that image_pull_secrets may read it.`,
        until,
      )
    case 'CreateContainerConfigError':
    case 'CreateContainerError':
      if (/runAsNonRoot|non-root|non-numeric user/.test(message))
        return told(
          `The image ${image} runs as root, or names its user by name, which this cluster does not allow (${message}). Give it a numeric USER above 0.`,
          NOW,
        )
      return told(
        `The container ${name} cannot be made (${message || waiting.reason}). Check the secrets, keys and volumes that it names.`,
        until,
      )
  }
  const end = state?.terminated ?? lastState?.terminated
  // One that ended as it should, or runs again since, is no trouble.
  if (!end || (state?.terminated && end.exitCode === 0) || (state?.running && container.ready)) return []
  const loops = restartCount + (state?.terminated ? 1 : 0) >= MAX_CRASHES ? NOW : NEVER
  const log = { pod: pod.metadata!.name!, container: name, previous: !state?.terminated }
  if (end.reason === 'OOMKilled')
    return told(
      `The container ${name} needs more memory than its limit, and was killed. Raise memory_limit_mb.`,
      loops,
      log,
    )
  if (end.reason === 'StartError' || end.reason === 'ContainerCannotRun')
    return told(
      `The container ${name} cannot be started (${trimSentence(end.message)}). Check its command.`,
      loops,
      log,
    )
  const how = end.signal ? `by signal ${end.signal}` : `with exit code ${end.exitCode}`
  const often = restartCount > 0 ? `, ${restartCount + (state?.terminated ? 1 : 0)} times now` : ''
  return told(`The container ${name} ended ${how}${often}. Its log tells why.`, loops, log)
}

/** What a report may hold: the sentence whole, and of the log as much as fits, its end. */
export function withLog(reason: string, lines: string[], most = 2000): string {
  const head = reason.slice(0, most)
  if (lines.length === 0) return head
  const intro = '\nThe last lines of its log:\n'
  const room = most - head.length - intro.length
  if (room < 40) return head
  // No line is told without its beginning: half of a secret would not be known for what it is.
  let [at, left] = [lines.length, room]
  while (at > 0 && lines[at - 1]!.length + 1 <= left) left -= lines[--at]!.length + 1
  const whole = lines.slice(at)
  const told = whole.length > 0 ? whole : [`${lines.at(-1)!.slice(0, room - 2)}…`]
  return head + intro + (at > 0 && whole.length > 0 && left > 1 ? ['…', ...whole] : told).join('\n')
}
