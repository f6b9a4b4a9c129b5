// The first columns of a table, up to the source, stay in view while the table scrolls sideways (`tables.css`).

/** Only so many columns stay in view. */
const MOST = 3;

export class StickyColumns {
  constructor(private readonly table: HTMLTableElement) {
    table.classList.add("insp-rows");
  }

  /** @param head is the head row; its cells have the names of their columns. */
  show(head: HTMLElement): void {
    const upTo = [...head.children].findIndex(isSource) + 1;
    this.table.dataset["sticky"] = String(upTo || 1);
  }

  /** Sets the places of the columns. It reads their widths, so it is called only if the table scrolls sideways. */
  place(scroller: HTMLElement): void {
    if (scroller.scrollLeft <= 0) return;
    let left = 0;
    [...(this.table.tHead?.rows[0]?.cells ?? [])].slice(0, MOST).forEach((cell, i) => {
      this.table.style.setProperty(`--insp-left-${i + 1}`, `${left}px`);
      left += cell.offsetWidth;
    });
  }
}

function isSource(cell: Element): boolean {
  return (cell as HTMLElement).dataset["column"] === "source";
}
