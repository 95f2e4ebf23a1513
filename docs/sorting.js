// A click on a heading sorts the rows of its table by that column: by the first number of each cell, or by its text.
document.addEventListener("click", (event) => {
  const heading = event.target.closest(".md-typeset th");
  if (!heading) return;
  const table = heading.closest("table"), place = [...heading.parentNode.children].indexOf(heading);
  const descending = heading.ariaSort === "ascending";
  const value = (row) => {
    const text = row.children[place].textContent.trim();
    const number = parseFloat(text.replace("−", "-").replace(/^\./, "0."));
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    return typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
  };
  const rows = [...table.tBodies[0].rows].sort(compare);
  table.tBodies[0].append(...(descending ? rows.reverse() : rows));
  for (const each of heading.parentNode.children) each.ariaSort = "none";
  heading.ariaSort = descending ? "descending" : "ascending";
});
