// A table whose rows lead on: on a phone each row is a block of lines, with the first and the last cell on the first.
import type { ComponentChildren, Ref } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { Button } from './button.tsx'
import styles from './table.module.css'

/** Rows of a phone are grids. Without these roles, screen readers would not find a table. */
const ROLES = {
  table: { role: 'table' },
  group: { role: 'rowgroup' },
  row: { role: 'row' },
  header: { role: 'rowheader' },
  cell: { role: 'cell' },
} as const

export type Column = {
  label: string
  /** Such as `30%` or `96`. Columns without one share the rest. */
  width?: string
  /** Aligns the column at its end: numbers and ages. */
  isEnd?: boolean
  /** Shown instead of the label: a `SortButton`. */
  head?: ComponentChildren
  sorted?: 'ascending' | 'descending' | undefined
}
type TableProps = {
  caption: string
  columns: Column[]
  children: ComponentChildren
  /** The rows belong to an earlier filter. */
  isOld?: boolean
  /** The children are groups of rows. */
  isGrouped?: boolean
  tableRef?: Ref<HTMLTableElement> | undefined
}
export const Table = ({ caption, columns, children, isOld = false, isGrouped = false, tableRef }: TableProps) => (
  <table {...ROLES.table} class={`${styles.table} ${isOld ? styles.old : ''}`} {...(tableRef && { ref: tableRef })}>
    <caption class={styles.unseen}>{caption}</caption>
    <colgroup>
      {columns.map(({ label, width }) => (
        <col key={label} width={width} />
      ))}
    </colgroup>
    <thead>
      <tr>
        {columns.map(({ label, isEnd, head, sorted }) => (
          <th key={label} scope="col" class={isEnd ? styles.end : undefined} aria-sort={sorted}>
            {head ?? label}
          </th>
        ))}
      </tr>
    </thead>
    {isGrouped ? children : <tbody {...ROLES.group}>{children}</tbody>}
  </table>
)

type GroupProps = { label: string; count: number; columns: number; children: ComponentChildren }
export const Group = ({ label, count, columns, children }: GroupProps) => (
  <tbody {...ROLES.group}>
    <tr class={styles.group} {...ROLES.row}>
      <th colSpan={columns} scope="colgroup" {...ROLES.header}>
        {label} <b>{count}</b>
      </th>
    </tr>
    {children}
  </tbody>
)

type RowProps = { children: ComponentChildren; onActive?: (() => void) | undefined }
/** The link or button with `data-row` covers the whole row. `onActive` runs when the pointer or the focus enters it. */
export const Row = ({ children, onActive }: RowProps) => (
  <tr class={styles.row} onMouseEnter={onActive} onFocusCapture={onActive} {...ROLES.row}>
    {children}
  </tr>
)

type CellProps = {
  children?: ComponentChildren
  /** A second, smaller line. */
  detail?: ComponentChildren
  icon?: ComponentChildren
  isEnd?: boolean
  /** Left out on a phone. */
  isWideOnly?: boolean
  /** Takes the place of the line while the row has the pointer or the focus. */
  quick?: ComponentChildren
}
export const Cell = ({ children, detail, icon, isEnd = false, isWideOnly = false, quick }: CellProps) => (
  <td {...ROLES.cell} class={[isEnd ? styles.end : '', isWideOnly ? styles.wideOnly : ''].join(' ')}>
    <div class={icon ? styles.marked : undefined}>
      {icon}
      <div class={styles.line}>{children}</div>
      {detail && <div class={styles.detail}>{detail}</div>}
      {quick && <div class={styles.quick}>{quick}</div>}
    </div>
  </td>
)

/** The class of the link or button that opens the row. */
export const rowLink = styles.link

type MoreProps = { isBusy: boolean; onMore: () => void; isEager?: boolean | undefined }
export function More({ isBusy, onMore, isEager = false }: MoreProps) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (!isEager) return
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && !isBusy && onMore(), {
      rootMargin: '400px',
    })
    observer.observe(place.current!)
    return () => observer.disconnect()
  }, [isBusy, isEager])
  return (
    <div ref={place} class={styles.more}>
      <Button busy={isBusy} onClick={onMore}>
        Show more
      </Button>
    </div>
  )
}
