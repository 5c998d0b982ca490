// A table of members with their values before and after.
import type { ComponentChildren } from 'preact'
import styles from './diff.module.css'

export type Difference = {
  path: string
  before: ComponentChildren
  after: ComponentChildren
  aside?: ComponentChildren
  note?: ComponentChildren
}

type DiffTableProps = {
  caption: string
  columns?: [before: ComponentChildren, after: ComponentChildren]
  asideColumn?: string
  rows: Difference[]
}
export const DiffTable = ({ caption, columns = ['Now', 'After'], asideColumn, rows }: DiffTableProps) => (
  <table class={styles.table}>
    <caption class={styles.unseen}>{caption}</caption>
    <thead>
      <tr>
        <th scope="col">Setting</th>
        <th scope="col">{columns[0]}</th>
        <th scope="col">{columns[1]}</th>
        {asideColumn && (
          <th scope="col" class={styles.aside}>
            {asideColumn}
          </th>
        )}
      </tr>
    </thead>
    <tbody>
      {rows.map(({ path, before, after, aside, note }) => (
        <tr key={path} class={note ? styles.noted : undefined}>
          <th scope="row">
            <code>{path}</code>
          </th>
          <td>
            {before}
            {note && <span class={styles.note}>{note}</span>}
          </td>
          <td>{after}</td>
          {asideColumn && <td class={styles.aside}>{aside}</td>}
        </tr>
      ))}
    </tbody>
  </table>
)

/** An old and a new value. `text` replaces a value that must not be shown. */
type ValueProps = { value: unknown; absent?: string }
export const OldValue = ({ value, absent = 'not set' }: ValueProps) =>
  isAbsent(value) ? <span class={styles.absent}>{absent}</span> : <del class={styles.old}>{formatValue(value)}</del>
export const NewValue = ({ value, absent = 'removed' }: ValueProps) =>
  isAbsent(value) ? <span class={styles.absent}>{absent}</span> : <ins class={styles.new}>{formatValue(value)}</ins>

const isAbsent = (value: unknown) => value === null || value === undefined
export const formatValue = (value: unknown): string =>
  typeof value === 'string' ? (value === '' ? '(empty)' : value) : JSON.stringify(value)
