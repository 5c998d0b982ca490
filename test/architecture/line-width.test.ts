// No line is wider than 120 characters. Tables and code blocks of Markdown, unbreakable words and generated files are
// exempt.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = join(import.meta.dirname, '../..')
const MAX_WIDTH = 120
const GENERATED = ['drizzle/schema.sql', 'drizzle/0000_baseline.sql']

/** The numbers of the lines that are too wide. */
function wideLinesOf(path: string, text: string): number[] {
  const isMarkdown = path.endsWith('.md')
  let isInCodeBlock = false
  return text.split('\n').flatMap((line, i) => {
    if (isMarkdown && /^\s*(```|~~~)/.test(line)) isInCodeBlock = !isInCodeBlock
    const isExempt = isMarkdown && (isInCodeBlock || /^\s*\|/.test(line))
    return isExempt || line.length <= MAX_WIDTH || isUnbreakable(line) ? [] : [i + 1]
  })
}

/** One word, such as a URL or a digest, after the mark of a comment, a list or a quote. */
const isUnbreakable = (line: string) => /^\s*(?:(?:\/\/|--|[-*>#])\s+)?\S+$/.test(line)

it('no file has a line over 120 characters', () => {
  const tracked = execFileSync('git', ['ls-files', '*.ts', '*.md', '*.sql', '*.sh'], { cwd: root, encoding: 'utf8' })
  const isWritten = (path: string) => path !== '' && !GENERATED.includes(path)
  const files = tracked.split('\n').filter(path => isWritten(path) && existsSync(join(root, path)))
  const wide = files.flatMap(path => {
    const lines = wideLinesOf(path, readFileSync(join(root, path), 'utf8'))
    return lines.length > 0 ? [`${path}: lines ${lines.join(', ')} are too wide`] : []
  })
  expect(wide).toEqual([])
})

describe('the width of a line', () => {
  const words = 'word '.repeat(30)
  const url = `https://example.com/${'a'.repeat(120)}`

  it.each([
    ['code', 'a.ts', `const a = '${words}'`],
    ['a comment', 'a.ts', `// ${words}`],
    ['a sentence with a URL', 'a.md', `See ${url}`],
    ['prose after a code block', 'a.md', `\`\`\`\ncode\n\`\`\`\n${words}`],
  ])('counts in %s', (_, path, text) => expect(wideLinesOf(path, text)).toHaveLength(1))

  it.each([
    ['a table', 'a.md', `| ${words} |`],
    ['a code block', 'a.md', `\`\`\`sh\n${words}\n\`\`\``],
    ['a URL in a list', 'a.md', `- ${url}`],
    ['a URL in a comment', 'a.ts', `  // ${url}`],
  ])('does not count in %s', (_, path, text) => expect(wideLinesOf(path, text)).toEqual([]))
})
