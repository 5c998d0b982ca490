// Times of ClickHouse as the app has them: ISO 8601 in UTC with microseconds.

export const fromClickHouseTime = (time: string | null): string | null => time && `${time.replace(' ', 'T')}Z`

/** Takes microseconds since 1970. */
export function fromMicroseconds(micros: string): string {
  const ms = new Date(Number(micros.slice(0, -3))).toISOString()
  return `${ms.slice(0, -1)}${micros.slice(-3)}Z`
}
