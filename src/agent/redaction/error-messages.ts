// Describes unexpected errors to users, without the paths, addresses and commands of this machine in their messages.

type SystemError = Error & { code?: string; syscall?: string; errno?: number }

const SYSTEM_ERROR_MESSAGES: Record<string, string> = {
  ENAMETOOLONG: 'a file name is too long for the disk of the agent',
  ENOSPC: 'the disk of the agent is full',
  EDQUOT: 'the disk of the agent is full',
  EACCES: 'the agent has no permission to write a file',
  EPERM: 'the agent has no permission to write a file',
  EROFS: 'the disk of the agent is read-only',
  EMFILE: 'the agent has too many open files',
  ENFILE: 'the machine of the agent has too many open files',
  E2BIG: 'the command and its environment variables are too long',
  ENOENT: 'a file or program that the agent needs is missing',
  ENOMEM: 'the machine of the agent is out of memory',
}

/** The message of a system error contains a path, so only its code is used. */
export function describeError(error: unknown): string {
  const { code, syscall, message } = error as SystemError
  if (typeof code !== 'string' || typeof syscall !== 'string') return message
  return `${SYSTEM_ERROR_MESSAGES[code] ?? 'a system call of the agent failed'} (${code})`
}
