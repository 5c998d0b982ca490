// Explains why an image could not be pulled, built or pushed, and what to do, in sentences for users. Pure.

export const DISK_FULL = /no space left on device|disk quota exceeded/i
const ACCESS_DENIED = /unauthorized|denied|authentication required|no basic auth|forbidden|\b40[13]\b/i
const NOT_FOUND = /manifest unknown|not found|name unknown|no such image|\b404\b/i
const CONNECTION_FAILED =
  /connection refused|no such host|timeout|timed out|deadline exceeded|unreachable|reset by peer/i
const TLS_FAILED = /tls|x509|\bEOF\b|server gave HTTP/i
const isUnreachable = (message: string) => CONNECTION_FAILED.test(message) || TLS_FAILED.test(message)

export function explainPullFailure(image: string, message: string): string {
  const details = shortSentence(message)
  if (DISK_FULL.test(message)) return explainFullDisk(message)
  if (ACCESS_DENIED.test(message)) {
    const advice = 'Check the name, and name the secret with its credentials in image_pull_secrets.'
    return `The registry denied access to the image ${image}, or has no such image. ${advice} Its answer: ${details}`
  }
  if (NOT_FOUND.test(message))
    return (
      `The image ${image} does not exist. Check its name and tag, and that it was pushed. ` +
      `The registry's answer: ${details}`
    )
  if (isUnreachable(message))
    return (
      `The registry of the image ${image} is unreachable from this agent. ` +
      `Check that it runs and that this machine can connect to it. ${capitalize(details)}`
    )
  return `The image ${image} cannot be pulled: ${details}`
}

export function explainBuildFailure(message: string): string {
  return DISK_FULL.test(message) ? explainFullDisk(message) : `The image cannot be built: ${shortSentence(message)}`
}

export function explainPushFailure(image: string, message: string): string {
  const details = shortSentence(message)
  if (DISK_FULL.test(message)) return explainFullDisk(message)
  if (ACCESS_DENIED.test(message))
    return (
      `The registry does not allow this agent to push ${image}. ` +
      `Ask the operator to check the agent's credentials. Its answer: ${details}`
    )
  if (isUnreachable(message))
    return `The registry for ${image} is unreachable from the image builder. ${capitalize(details)}`
  return `The image ${image} cannot be pushed: ${details}`
}

const explainFullDisk = (message: string) =>
  `The disk of the container engine is full. Free some space, or enlarge the disk. Its answer: ` +
  `${shortSentence(message)}`

/** One line of at most 300 characters, without the period at its end. */
export const shorten = (message: string) => {
  const line = message.trim().replace(/\s+/g, ' ').replace(/\.$/, '')
  return line.length > 300 ? `${line.slice(0, 300)}…` : line
}
const shortSentence = (message: string) => `${shorten(message)}.`
const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
