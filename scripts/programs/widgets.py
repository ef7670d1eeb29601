# Qt's widgets, drawn into memory: see pyside.sh.
import hashlib
import os
import sys

from PySide6.QtCore import QRunnable, QSortFilterProxyModel, Qt, QThreadPool
from PySide6.QtGui import QColor, QImage, QPainter, QPainterPath, QStandardItem, QStandardItemModel
from PySide6.QtGui import QTextCursor, QTextDocument
from PySide6.QtWidgets import QApplication, QGraphicsScene, QTableView, QTreeWidget, QTreeWidgetItem

count = int(sys.argv[1])
app = QApplication([])


def digest(image):
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    return hashlib.md5(image.constBits()).hexdigest()


model = QStandardItemModel(0, 3)
for at in range(count):
    texts = [f"stone {at * 7919 % 10007:05}", str(at % 97), "x" * (at % 30)]
    model.appendRow([QStandardItem(text) for text in texts])
proxy = QSortFilterProxyModel()
proxy.setSourceModel(model)
proxy.setFilterRegularExpression("[13579]$")
table = QTableView()
table.setModel(proxy)
for at in range(20):
    table.resize(600 + at, 800)
    proxy.sort(at % 3)
    picture = table.grab()
proxy.sort(0)
print(proxy.rowCount(), proxy.index(5, 0).data(), digest(picture.toImage()))

tree = QTreeWidget()
for at in range(count // 10):
    top = QTreeWidgetItem(tree, [f"n{at}"])
    for leaf in range(10):
        QTreeWidgetItem(top, [f"{at}.{leaf}"])
tree.expandAll()
found = tree.findItems("7", Qt.MatchFlag.MatchContains | Qt.MatchFlag.MatchRecursive)
print(len(found), digest(tree.grab().toImage()))

document = QTextDocument()
cursor = QTextCursor(document)
for at in range(count // 6):
    cursor.insertHtml(f"<b>Stone {at}</b> of <i>{at * 7}</i>: " + "many words here. " * 10)
    cursor.insertBlock()
for at in range(20):
    document.setTextWidth(400 + at * 10)
    document.undo()
    document.redo()
print(document.blockCount(), document.characterCount(), len(document.toHtml()) > 1000)

scene = QGraphicsScene()
for at in range(count):
    path = QPainterPath()
    path.moveTo(at * 37 % 600, at * 91 % 600)
    path.cubicTo(at % 600, at * 3 % 600, at * 7 % 600, at * 13 % 600, 300, 300)
    scene.addPath(path, QColor(at % 256, at * 3 % 256, 90))
image = QImage(600, 600, QImage.Format.Format_RGB32)
for at in range(12):
    image.fill(0)
    painter = QPainter(image)
    painter.rotate(at / 2)
    scene.render(painter)
    painter.end()
print(len(scene.items(0, 0, 100, 100, Qt.ItemSelectionMode.IntersectsItemShape,
                      Qt.SortOrder.AscendingOrder)), digest(image))


class Scaled(QRunnable):
    def __init__(self, at):
        super().__init__()
        self.setAutoDelete(False)
        self.at, self.digest = at, None

    def run(self):
        smooth = Qt.TransformationMode.SmoothTransformation
        self.digest = digest(image.scaled(50 + self.at * 7, 300, mode=smooth))


pool = QThreadPool()
pool.setMaxThreadCount(2)
tasks = [Scaled(at) for at in range(40)]
for task in tasks:
    pool.start(task)
pool.waitForDone()
print(hashlib.md5("".join(task.digest for task in tasks).encode()).hexdigest())
sys.stdout.flush()
# When Python ends, PySide6 releases None once too often, under every allocator.
os._exit(0)
