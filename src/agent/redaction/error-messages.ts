// What an error that nobody foresaw is told as: never with the path, the address or the command of this machine that
// it carries.

type SystemError = Error & { code?: string; syscall?: string; errno?: number }

const SYSTEM_ERROR_MESSAGES: Record<string, string> = {
  ENAMETOOLONG: 'a name is too long for the disk of this agent',
  ENOSPC: 'the disk of this agent is full',
  EDQUOT: 'the disk of this agent is full',
  EACCES: 'this agent may not write there',
  EPERM: 'this agent may not write there',
  EROFS: 'the disk of this agent cannot be written to',
  EMFILE: 'this agent has too many files open',
  ENFILE: 'the machine of this agent has too many files open',
  E2BIG: 'its command and its environment together are too long',
  ENOENT: 'a file or a program that it needs is not there',
  ENOMEM: 'the machine of this agent has no memory left',
}

/** A system error names what it failed on; its code says enough. */
export function describeError(error: unknown): string {
  const { code, syscall, message } = error as SystemError
  if (typeof code !== 'string' || typeof syscall !== 'string') return message
  return `${SYSTEM_ERROR_MESSAGES[code] ?? 'the machine of this agent refuses it'} (${code})`
}
