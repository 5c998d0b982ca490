// The browser and the system of a user agent, in words (pure).
const BROWSERS: [name: string, pattern: RegExp][] = [
  ['Edge', /\bEdg\//],
  ['Opera', /\bOPR\//],
  ['Firefox', /\bFirefox\//],
  ['Chrome', /\b(Headless)?Chrom(e|ium)\//],
  ['Safari', /\bSafari\//],
]
const SYSTEMS: [name: string, pattern: RegExp][] = [
  ['iPhone', /\biPhone\b/],
  ['iPad', /\biPad\b/],
  ['Android', /\bAndroid\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMac OS X\b/],
  ['Linux', /\bLinux\b/],
]
const find = (all: [string, RegExp][], text: string) => all.find(([, pattern]) => pattern.test(text))?.[0]

export function describeUserAgent(userAgent: string | null): string {
  if (!userAgent) return 'Unknown browser'
  const [browser, system] = [find(BROWSERS, userAgent), find(SYSTEMS, userAgent)]
  if (!browser) return userAgent.split(' ', 1)[0]!
  return system ? `${browser} on ${system}` : browser
}
