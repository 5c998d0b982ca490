// Refuses versions of Deno and Bun on which the limits of the server or the guard of requests to others do not hold.

export type Version = [major: number, minor: number]

export function isOlder(version: string, [major, minor]: Version): boolean {
  const [ownMajor = 0, ownMinor = 0] = version.split('.').map(Number)
  return ownMajor < major || (ownMajor === major && ownMinor < minor)
}

/** Ends the process with a message if the version is older. */
export function requireVersion(program: string, version: string, oldest: Version): void {
  if (!isOlder(version, oldest)) return
  console.error(
    `This command needs ${program} ${oldest.join('.')} or newer; this is ${program} ${version}. ` +
      'Install a newer one, or run `npm ci` without `--omit=dev`, which brings its own.',
  )
  process.exit(1)
}
