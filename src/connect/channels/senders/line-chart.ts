// A line chart as a PNG file: mail clients show no SVG. It has no text: labels stand beside the picture.

const WIDTH = 560
const HEIGHT = 160
const PAD = 6
/** Indexes of the palette. 0 is the paper. */
const [GRID, LINE, LIMIT] = [1, 2, 3] as const
const PALETTE = [0xff, 0xff, 0xff, 0xe2, 0xe6, 0xec, 0x2f, 0x4b, 0xc4, 0xb3, 0x26, 0x1e]
const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]

const CRC_TABLE = Int32Array.from({ length: 256 }, (_, crc) => {
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  return crc
})
const crcOf = (bytes: Uint8Array): number => {
  let crc = -1
  for (const byte of bytes) crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ byte) & 0xff]!
  return ~crc >>> 0
}

function chunk(type: string, data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(12 + data.length)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, data.length)
  bytes.set(new TextEncoder().encode(type), 4)
  bytes.set(data, 8)
  view.setUint32(8 + data.length, crcOf(bytes.subarray(4, 8 + data.length)))
  return bytes
}

async function deflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate'))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

export type Chart = { points: [time: number, value: number][]; threshold?: number | undefined }

/** A share from 0 to 1, for any numbers: the loops below end with the picture. */
const createScale = (min: number, max: number) => (value: number) => {
  const share = value / (max - min) - min / (max - min)
  return Number.isFinite(share) ? Math.min(1, Math.max(0, share)) : 0
}

/** The rows of the picture, each after its filter byte. */
function paint({ points, threshold }: Chart): Uint8Array<ArrayBuffer> {
  const rows = new Uint8Array((WIDTH + 1) * HEIGHT)
  const set = (x: number, y: number, color: number) => {
    if (x >= 0 && x < WIDTH && y >= 0 && y < HEIGHT) rows[y * (WIDTH + 1) + 1 + x] = color
  }
  const times = points.map(([time]) => time)
  const values = points.map(([, value]) => value)
  const limits = threshold === undefined ? values : [...values, threshold]
  const across = createScale(Math.min(...times), Math.max(...times))
  const up = createScale(Math.min(0, ...limits), Math.max(0, ...limits))
  const toX = (time: number) => Math.round(PAD + across(time) * (WIDTH - 1 - 2 * PAD))
  const toY = (value: number) => Math.round(HEIGHT - 1 - PAD - up(value) * (HEIGHT - 1 - 2 * PAD))
  for (const part of [0, 0.25, 0.5, 0.75, 1])
    for (let x = 0; x < WIDTH; x++) set(x, Math.round(PAD + part * (HEIGHT - 1 - 2 * PAD)), GRID)
  if (threshold !== undefined) for (let x = 0; x < WIDTH; x++) if (x % 8 < 5) set(x, toY(threshold), LIMIT)
  for (const [i, [time, value]] of points.entries()) {
    const [fromTime, fromValue] = points[Math.max(0, i - 1)]!
    const [x0, y0, x1, y1] = [toX(fromTime), toY(fromValue), toX(time), toY(value)]
    const steps = Math.max(1, Math.abs(x1 - x0), Math.abs(y1 - y0))
    for (let step = 0; step <= steps; step++) {
      const x = Math.round(x0 + ((x1 - x0) * step) / steps)
      const y = Math.round(y0 + ((y1 - y0) * step) / steps)
      for (const [dx, dy] of [
        [0, 0],
        [1, 0],
        [0, 1],
        [1, 1],
      ] as const)
        set(x + dx, y + dy, LINE)
    }
  }
  return rows
}

export async function drawChart(chart: Chart): Promise<Uint8Array> {
  const points = chart.points.filter(([time, value]) => Number.isFinite(time) && Number.isFinite(value))
  const header = new Uint8Array(13)
  const view = new DataView(header.buffer)
  view.setUint32(0, WIDTH)
  view.setUint32(4, HEIGHT)
  // Eight bits for each pixel, an index of the palette.
  header.set([8, 3, 0, 0, 0], 8)
  const parts = [
    Uint8Array.from(SIGNATURE),
    chunk('IHDR', header),
    chunk('PLTE', Uint8Array.from(PALETTE)),
    chunk('IDAT', await deflate(paint({ ...chart, points }))),
    chunk('IEND', new Uint8Array()),
  ]
  const file = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    file.set(part, at)
    at += part.length
  }
  return file
}

export const CHART_SIZE = { width: WIDTH, height: HEIGHT }
