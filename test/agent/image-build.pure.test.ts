// The base images of a Dockerfile, the build context and the build log, without an engine.
import { describe, expect, test } from 'vitest'
import { findBaseImages } from '../../src/agent/images/base-images.ts'
import { createBuildLogParser } from '../../src/agent/images/build-lines.ts'
import { parseDockerignore } from '../../src/agent/images/dockerignore.ts'

describe('the base images of a Dockerfile', () => {
  const FROM = (image: string, before = '') => `${before}\nFROM ${image}\nRUN x\n`
  test.each<[string, string[]]>([
    [
      'from --platform=linux/amd64 a.example/base:1 as build\nRUN x\nFROM build AS test\nFROM scratch\n' +
        '  FROM a.example/base:1\n',
      ['a.example/base:1'],
    ],
    [FROM('node:$V', 'ARG V=24'), ['node:24']],
    [FROM(`$A/\${B}:\${C:-1}`, `ARG A=a.example B="base"\nARG B=\${B}-x`), ['a.example/base-x:1']],
    [FROM(`a\${X:+b}\${X-c}\${Y-d}`, 'ARG X=1'), ['ab1d']],
    [FROM(`sl"ip"'wa'y/\\a:1`), ['slipway/a:1']],
    [FROM('slipway/\\\n# between\n\na:1'), ['slipway/a:1']],
    ['\uFEFFFROM a:1\r\nCOPY --from=b:1 x y\r\n', ['a:1', 'b:1']],
    [
      'FROM a:1 AS one\nFROM b:1\nCOPY --chown=1 --from=One x y\nCOPY --from=1 x y\nCOPY --from=7 x y',
      ['a:1', 'b:1', '7'],
    ],
    ['FROM a:1\nRUN --mount=type=cache,target=/c --mount="type=bind,from=b:1" x', ['a:1', 'b:1']],
    ['FROM a:1\nONBUILD COPY --from=b:1 x y', ['a:1', 'b:1']],
    // A stage name counts only after its FROM, and not within a heredoc.
    ['FROM abc123\nFROM a:1 AS abc123\nFROM abc123', ['abc123', 'a:1']],
    ['FROM a:1\nRUN <<E\nFROM scratch AS abc123\nE\nFROM abc123', ['a:1', 'abc123']],
    ['FROM a:1\nRUN python <<E\nfrom json import load\nE', ['a:1']],
    ['FROM a:1\nFROM scratch AS slipway/b:1\nCOPY --from=slipway/b:1 x y', ['a:1', 'slipway/b:1']],
    // Some builders leave platform variables empty.
    [FROM('base-$TARGETARCH', 'ARG TARGETARCH'), ['base-arm64', 'base-']],
    [FROM('base-$TARGETARCH', 'ARG TARGETARCH=x'), ['base-arm64', 'base-x']],
    [FROM('docker://a:1', '# syntax=docker/dockerfile:1.7-labs'), ['a:1']],
  ])('in %j are %j', (text, images) => expect(findBaseImages(text, 'arm64')).toEqual(images))

  test.each<[string, RegExp]>([
    [FROM('node:$V'), /`FROM node:\$V`.*`ARG NAME=value`/],
    [FROM('node:$V', 'ARG V'), /above the first/],
    [FROM('a:1\nARG V=1\nFROM b:$V'), /`FROM b:\$V`/],
    [FROM(`\${V:-\${W}}`, 'ARG W=1'), /ARG/],
    [FROM(`\${V%x}`, 'ARG V=1'), /ARG/],
    [FROM('a:1\nARG V=1\nCOPY --from=b:$V x y'), /use that stage/],
    [FROM('a:1\nRUN --mount=from=$V,target=/x y'), /use that stage/],
    [FROM('containers-storage:slipway/a:1'), /not in a registry/],
    [FROM('a:1', '# a\n# syntax = a.example/reader'), /`a\.example\/reader`/],
    [FROM('a:1', '# escape=`'), /Windows/],
  ])('cannot be known before the build of %j, so it is refused', (text, reason) =>
    expect(() => findBaseImages(text)).toThrow(reason),
  )
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
    ['*.txt\n!a.txt\na.*', 'a.txt', true],
    ['*', 'Dockerfile', false],
    ['*', '.dockerignore', false],
  ])('%j excludes %s: %s', (text, path, isExcluded) => expect(parseDockerignore(text)(path, false)).toBe(isExcluded))

  test('skips an excluded folder unless it may contain an included file', () => {
    const isExcluded = parseDockerignore('*\n!src/app')
    expect(['src', 'src/app', 'src/other'].map(path => isExcluded(path, true))).toEqual([false, false, true])
    expect(isExcluded('lib', true)).toBe(true)
  })

  test.each([
    ['*\n!packages/*/package.json', [false, false, true]],
    ['*\n!**/*.js', [false, false, false]],
    ['*\n!pack?ges/a/*.js', [false, false, true]],
    ['*\n!packages/b*', [false, true, true]],
  ])('%j keeps the folders above included files', (text, expected) => {
    const isExcluded = parseDockerignore(text)
    expect(['packages', 'packages/a', 'other'].map(path => isExcluded(path, true))).toEqual(expected)
  })
})

describe('the log lines of a build', () => {
  test('are joined from the chunks of the classic builder', () => {
    const lines = createBuildLogParser()
    const messages = [
      { stream: 'Step 1/2 : ' },
      { stream: 'FROM a\n' },
      { aux: { ID: 'sha256:1' } },
      { stream: '\nlast' },
    ]
    expect(messages.flatMap(lines.push)).toEqual(['Step 1/2 : FROM a'])
    expect(lines.end()).toEqual(['last'])
  })

  test('are decoded from the messages of BuildKit (Docker 28.5): each step once, and its output', () => {
    const lines = createBuildLogParser()
    const trace = (aux: string) => lines.push({ id: 'moby.buildkit.trace', aux })
    const stepStarted = [
      'CrUBCkdzaGEyNTY6Yzg0MTcwNTE4YjA0MTlhYWMyYjU5ZTBkMzNmYjAzODM3YWYwNzJmOThlMWI5ODdiNTU0YTU3NTg1M2Y0YTFk',
      'NRJHc2hhMjU2OjRlNGQyZWZjNTQ1ZWFkZDRiNmE2NGE4M2JkNmQyMTc2ZTliODI1Yzc3MjUyNDI1Y2RjNmMxZDcyOGQzYjZlMTMa',
      'FFs0LzRdIFJVTiBscyAtQSAvYWxsKgsIr8aH2AYQs8DVbA==',
    ].join('')
    const stepOutput = [
      'GogBCkdzaGEyNTY6Yzg0MTcwNTE4YjA0MTlhYWMyYjU5ZTBkMzNmYjAzODM3YWYwNzJmOThlMWI5ODdiNTU0YTU3NTg1M2Y0YTFk',
      'NRIMCK/Gh9gGENXExYACGAEiLS5kb2NrZXJpZ25vcmUKRG9ja2VyZmlsZQpidXN5Ym94Cmlnbm9yZWQudHh0Cg==',
    ].join('')
    const internalStep = [
      'Cn0KR3NoYTI1Njo0NTEyNzkxNDg3MzI5OGQwYjVkY2VlMjU2YzVkN2UzZWM0M2QxYzQ4OWNkOTgwZjY3NzE5M2EwNGE5MDZhNDQw',
      'GiRbaW50ZXJuYWxdIGxvYWQgcmVtb3RlIGJ1aWxkIGNvbnRleHQqDAitxofYBhCzlfe8Ag==',
    ].join('')
    expect(trace(internalStep)).toEqual([])
    expect([...trace(stepStarted), ...trace(stepStarted)]).toEqual(['[4/4] RUN ls -A /all'])
    expect(trace(stepOutput)).toEqual(['.dockerignore', 'Dockerfile', 'busybox', 'ignored.txt'])
    // A truncated message ends the decoder.
    expect(trace(stepOutput.slice(0, 40))).toEqual([])
    // The same step, with an unfinished last line.
    const bytes = Buffer.from(stepOutput, 'base64').subarray(0, -1)
    for (const lengthPosition of [1, bytes.indexOf('.dockerignore') - 1]) bytes[lengthPosition]!--
    expect([trace(bytes.toString('base64')), lines.end()]).toEqual([
      ['.dockerignore', 'Dockerfile', 'busybox'],
      ['ignored.txt'],
    ])
  })
})
