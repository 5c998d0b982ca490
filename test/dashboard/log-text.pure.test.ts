// Log lines as the dashboard shows them: colors of terminals, blocks that grow at both ends, and found text.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseAnsi, toPlainText } from '../../src/dashboard/format/ansi.ts'
import {
  appendLines,
  countLevels,
  countLines,
  dropOldest,
  findMatches,
  type Line,
  prependLines,
  toHistogram,
  toLine,
} from '../../src/dashboard/screens/logs/blocks.ts'
import { findExcerpt, findStep } from '../../src/dashboard/screens/logs/build-failure.ts'

/** `text` of `red`, or `red+bold`, or a plain text. */
const show = (line: string) =>
  parseAnsi(line).map(({ text, color, styles }) => {
    const names = [...(color ? [color] : []), ...styles].join('+')
    return names ? `${names}(${text})` : text
  })

describe('the colors of a line', () => {
  it.each([
    ['plain', ['plain']],
    ['␛[31mred␛[0m plain', ['red(red)', ' plain']],
    ['␛[1;32mok␛[22m still␛[39m plain', ['green+bold(ok)', 'green( still)', ' plain']],
    ['␛[91mbright␛[m none', ['red(bright)', ' none']],
    ['␛[38;5;196mcube␛[0m␛[38;2;10;200;20mtrue', ['red(cube)', 'green(true)']],
    ['␛[38:2:0:0:250mcolons', ['blue(colons)']],
    ['␛[90mgray␛[38;5;240mgray too', ['black(graygray too)']],
    ['␛[31m␛[31m␛[4mone␛[24m', ['red+underline(one)']],
    ['', []],
  ])('in %j are %j', (line, parts) => {
    expect(show(line)).toEqual(parts)
  })

  it.each([
    ['hidden by its background', '␛[37;41mFAILED␛[0m', ['red(FAILED)']],
    ['concealed', '␛[8msecret␛[28m', ['secret']],
    ['blinking', '␛[5mnow', ['now']],
    ['moved by the cursor', 'one␛[2K␛[1Gtwo␛[10;10Hthree', ['onetwothree']],
    ['a title and a link', '␛]0;title␇a ␛]8;;https://example.com␛\\link␛]8;;␛\\', ['a link']],
    ['an unfinished sequence', 'a␛[31', ['a␛[31']],
    ['an unfinished title', `␛]0;${'x'.repeat(600)}end`, [`␛]0;${'x'.repeat(600)}end`]],
    ['unknown codes', '␛[999;38;7;31mred', ['red(red)']],
    ['markup', '<b onclick="x">&amp;</b>', ['<b onclick="x">&amp;</b>']],
  ])('never hide text that is %s', (_, line, parts) => {
    expect(show(line)).toEqual(parts)
  })

  it('keep every character outside of sequences, whatever a line contains', () => {
    const pieces = fc.constantFrom('␛', '[', ']', ';', '31', 'm', '8', '␇', '\\', 'text', '0', 'K', '38;5;1', ' ')
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 60 }), all => {
        const line = all.join('')
        expect(toPlainText(line.replaceAll('␛', ''))).toBe(line.replaceAll('␛', ''))
      }),
    )
  })

  it.each(['␛', '␛[', '␛]', '␛[31mx', '␛[38;5;', '␛[1;1;1;1m', '␛]8;;'])(
    'are read in linear time and a bounded number of parts from a long line of %j',
    piece => {
      const text = piece.repeat(200_000 / piece.length)
      const before = process.cpuUsage()
      expect(parseAnsi(text).length).toBeLessThanOrEqual(400)
      // A search for each end to the end of the line takes some seconds.
      expect(process.cpuUsage(before).user / 1000).toBeLessThan(800)
    },
  )
})

const line = (arrival: number, message = `line ${arrival}`, level: Line['level'] = 'INFO') =>
  toLine({
    id: `r-deploy-${arrival}`,
    arrival,
    revision_id: 'r',
    kind: 'deploy',
    level,
    process: null,
    message,
    timestamp: new Date(arrival * 1000).toISOString(),
  })
const linesOf = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => line(from + i))
const arrivalsOf = (blocks: (readonly Line[])[]) => blocks.flatMap(block => block.map(({ arrival }) => arrival))
const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)

describe('the blocks of a log', () => {
  it('grow at both ends without a gap, and only the last one changes as lines arrive', () => {
    const first = appendLines([], linesOf(1_000, 1_450))
    expect(first.map(({ length }) => length)).toEqual([200, 200, 50])
    const more = appendLines(first, linesOf(1_450, 1_800))
    expect(more.map(({ length }) => length)).toEqual([200, 200, 200, 200])
    expect([more[0], more[1]]).toEqual([first[0], first[1]])
    expect(more[0]).toBe(first[0])
    const whole = prependLines(more, linesOf(500, 1_000))
    expect(whole.map(({ length }) => length)).toEqual([100, 200, 200, 200, 200, 200, 200])
    expect(whole.at(-1)).toBe(more.at(-1))
    expect(arrivalsOf(whole)).toEqual(numbers(500, 1_800))
    expect(appendLines(whole, [])).toBe(whole)
  })

  it('leave out the oldest, as whole blocks', () => {
    const blocks = appendLines([], linesOf(0, 1_000))
    const rest = dropOldest(blocks, 650)
    expect([countLines(rest), rest[0]![0]!.arrival]).toEqual([600, 400])
    expect(dropOldest(blocks, 1_000)).toBe(blocks)
  })

  it('are counted by level and searched whatever the case, without colors', () => {
    const blocks = appendLines([], [line(1, 'a ␛[31mTime␛[0mout'), line(2, 'timeout', 'ERROR'), line(3, 'fine')])
    expect(countLevels(blocks)).toEqual({ DEBUG: 0, INFO: 2, WARNING: 0, ERROR: 1, CRITICAL: 0 })
    expect(findMatches(blocks, 'TIMEOUT')).toEqual([1, 2])
    expect(findMatches(blocks, '')).toEqual([])
    expect(findMatches(appendLines(blocks, [line(4, 'timeout')]), 'timeout')).toEqual([1, 2, 4])
  })

  it('are drawn over time, each line in one bar', () => {
    const bars = toHistogram(appendLines([], [...linesOf(0, 10), line(19, 'late', 'ERROR')]), 4)
    expect(bars.map(({ counts }) => [counts.INFO, counts.ERROR])).toEqual([
      [5, 0],
      [5, 0],
      [0, 0],
      [0, 1],
    ])
    expect(bars.map(({ first }) => first)).toEqual([0, 5, undefined, 19])
    expect(toHistogram([], 4)).toEqual([])
  })
})

describe('the cause of a failed build', () => {
  const linesWith = (...messages: string[]) => messages.map((message, i) => line(i + 1, message))
  it('is the first line of the last step that tells of an error, and not that the command ended', () => {
    const lines = linesWith(
      'Installing: npm ci',
      'npm error: optional package not found',
      'added 2 packages',
      'Building: npm run build',
      'transforming',
      'x "a" is not exported: error during build',
      'at line 4',
      'The command ended with exit code 1.',
    )
    expect(findStep(lines)).toEqual({ name: 'Build command', command: 'npm run build' })
    const { cause, lines: shown } = findExcerpt(lines)
    expect([cause?.arrival, shown.at(-1)?.arrival]).toEqual([6, 8])
  })

  it('is unknown in a log that tells of none, and its last lines are shown', () => {
    const { cause, lines } = findExcerpt(linesOf(1, 101))
    expect([cause, lines.length, lines.at(-1)?.arrival]).toEqual([undefined, 12, 100])
    expect(findExcerpt([])).toEqual({ lines: [], cause: undefined })
    expect(findStep(linesOf(1, 3))).toBeUndefined()
  })
})
