// Which branches a policy means (pure): `*` stays between slashes, `**` does not, `?` is one character, `!` in front excludes.
const ESCAPED = /[\\^$.|+()[\]{}]/g

function patternOf(glob: string): RegExp {
  const parts = glob.split(/(\*\*|\*|\?)/).map(part => {
    if (part === '**') return '.*'
    if (part === '*') return '[^/]*'
    return part === '?' ? '[^/]' : part.replace(ESCAPED, '\\$&')
  })
  return new RegExp(`^${parts.join('')}$`, 's')
}

/** One of them means it, and none excludes it. */
export function means(globs: readonly string[], branch: string): boolean {
  const excluding = globs.filter(glob => glob.startsWith('!')).map(glob => glob.slice(1))
  const matches = (some: readonly string[]) => some.some(glob => patternOf(glob).test(branch))
  return matches(globs.filter(glob => !glob.startsWith('!'))) && !matches(excluding)
}
