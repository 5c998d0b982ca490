// What a build is sent, and what it tells, with no engine there.
import { describe, expect, test } from 'vitest'
import { buildLines } from '../../src/agent/engines/container/build-lines.ts'
import { fromOf, ignores } from '../../src/agent/engines/container/dockerfile.ts'

test('the images that a Dockerfile begins with, and not its own stages', () => {
  const text = `ARG V=1\nfrom --platform=linux/amd64 a.example/base:1 as build\nRUN x\nFROM build AS test\nFROM node:$V\nFROM scratch\n  FROM a.example/base:1\n`
  expect(fromOf(text)).toEqual(['a.example/base:1'])
})

describe('a .dockerignore', () => {
  test.each([
    ['node_modules', 'node_modules/a/b.js', true],
    ['node_modules', 'src/node_modules/a', false],
    ['**/node_modules', 'src/node_modules/a', true],
    ['/dist/', 'dist/x', true],
    ['*.md', 'README.md', true],
    ['*.md', 'docs/README.md', false],
    ['**/*.md', 'README.md', true],
    ['docs/**/*.md', 'docs/a/b/README.md', true],
    ['docs/**', 'docs/a/b', true],
    ['docs/**', 'docs2', false],
    ['a?c', 'abc', true],
    ['[a-c].txt', 'b.txt', true],
    ['a+b.txt', 'a+b.txt', true],
    ['a.txt', 'axtxt', false],
    ['# a.txt\n\n  b.txt  ', 'a.txt', false],
    ['# a.txt\n\n  b.txt  ', 'b.txt', true],
    ['*\n!src', 'src/a', false],
    ['*\n!src', 'other/a', true],
    ['*.txt\n!kept.txt\nkept.*', 'kept.txt', true],
    ['*', 'Dockerfile', false],
    ['*', '.dockerignore', false],
  ])('%j and %s: %s', (text, path, out) => expect(ignores(text)(path, false)).toBe(out))

  test('a folder is looked into only for what is to be kept of it', () => {
    const ignored = ignores('*\n!src/app')
    expect([ignored('src', true), ignored('src/app', true), ignored('src/other', true)]).toEqual([false, false, true])
    expect(ignored('lib', true)).toBe(true)
  })
})

describe('the lines of a build', () => {
  test('are those of the classic builder, however it cuts them', () => {
    const linesOf = buildLines()
    const messages = [{ stream: 'Step 1/2 : ' }, { stream: 'FROM a\n' }, { aux: { ID: 'sha256:1' } }, { stream: '\n' }]
    expect(messages.flatMap(linesOf)).toEqual(['Step 1/2 : FROM a'])
  })

  test('are those of BuildKit, as Docker 28.5 sends them: each step once when it begins, and what it writes', () => {
    const linesOf = buildLines()
    const trace = (aux: string) => linesOf({ id: 'moby.buildkit.trace', aux })
    const begun =
      'CrUBCkdzaGEyNTY6Yzg0MTcwNTE4YjA0MTlhYWMyYjU5ZTBkMzNmYjAzODM3YWYwNzJmOThlMWI5ODdiNTU0YTU3NTg1M2Y0YTFkNRJHc2hhMjU2OjRlNGQyZWZjNTQ1ZWFkZDRiNmE2NGE4M2JkNmQyMTc2ZTliODI1Yzc3MjUyNDI1Y2RjNmMxZDcyOGQzYjZlMTMaFFs0LzRdIFJVTiBscyAtQSAvYWxsKgsIr8aH2AYQs8DVbA=='
    const wrote =
      'GogBCkdzaGEyNTY6Yzg0MTcwNTE4YjA0MTlhYWMyYjU5ZTBkMzNmYjAzODM3YWYwNzJmOThlMWI5ODdiNTU0YTU3NTg1M2Y0YTFkNRIMCK/Gh9gGENXExYACGAEiLS5kb2NrZXJpZ25vcmUKRG9ja2VyZmlsZQpidXN5Ym94Cmlnbm9yZWQudHh0Cg=='
    const internal =
      'Cn0KR3NoYTI1Njo0NTEyNzkxNDg3MzI5OGQwYjVkY2VlMjU2YzVkN2UzZWM0M2QxYzQ4OWNkOTgwZjY3NzE5M2EwNGE5MDZhNDQwGiRbaW50ZXJuYWxdIGxvYWQgcmVtb3RlIGJ1aWxkIGNvbnRleHQqDAitxofYBhCzlfe8Ag=='
    expect(trace(internal)).toEqual([])
    expect([...trace(begun), ...trace(begun)]).toEqual(['[4/4] RUN ls -A /all'])
    expect(trace(wrote)).toEqual(['.dockerignore', 'Dockerfile', 'busybox', 'ignored.txt'])
    // Cut short, it is not read forever.
    expect(trace(wrote.slice(0, 40))).toEqual([])
  })
})
